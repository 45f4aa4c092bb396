import pytest

from edgeopt.graph.analysis import CoverageRow, OperatorRow
from edgeopt_gui.pages.model import tables
from edgeopt_gui.pages.model.work import Totals, totals


def texts(columns, row):
    return [column.text_of(row) for column in columns]


def test_ports(analysis):
    assert [texts(tables.PORT_COLUMNS, port) for port in tables.ports(analysis)] == [
        ["input", "image", "float32", "[batch, 1, 32, 32]"],
        ["output", "logits", "float32", "[batch, 10]"],
    ]


def test_nodes(analysis):
    conv = next(node for node in analysis.nodes if node.operator == "Conv")
    columns = tables.node_columns(lambda: Totals(2_766_144))
    place = ["8", "Conv", "convolution", "node_conv2d", "[batch, 24, 32, 32]"]
    assert texts(columns, conv) == [*place, "442 k", "16.0%", "unknown", "864 bytes"]


def test_operators(analysis):
    conv = next(row for row in analysis.operators if row.operator == "Conv")
    shown = texts(tables.operator_columns(lambda: totals(analysis)), conv)
    assert shown == ["Conv", "convolution", "9", "2.51 M", "90.9%", "unknown", "37.2 KiB"]


def test_an_operator_of_unknown_cost_is_no_zero():
    odd = OperatorRow("Odd", "mine", 3, unknown=3)
    columns = tables.operator_columns(lambda: Totals(100))
    assert texts(columns, odd) == ["mine.Odd", "unknown", "3", "unknown", "unknown", "unknown", ""]
    assert [column.value(odd) for column in columns[3:6]] == [None, None, None]


def test_opportunities(analysis):
    rows = {each.kind: texts(tables.OPPORTUNITY_COLUMNS, each) for each in analysis.opportunities}
    gain, title, _, results = rows["unfused patterns"]
    assert gain.startswith("≤ ")
    assert title == "Batch normalizations go into the weights before them"
    assert results == "stay the same"
    assert rows["quantization"][3] == "change"


def test_runtimes():
    partly = CoverageRow(
        "onnxruntime-cuda", "ONNX Runtime, CUDA", "1.31.1", 80, 83, ("Odd: o", "If: i", "A: a"), 4
    )
    broken = CoverageRow("openvino-cpu", "OpenVINO, CPU", reason="it does not load it")
    assert texts(tables.COVERAGE_COLUMNS, partly)[2:] == ["80 of 83", "4", "Odd: o, If: i, and 1 more"]
    assert texts(tables.COVERAGE_COLUMNS, broken)[2:] == ["unknown", "unknown", "it does not load it"]


def test_the_search_finds_who_makes_and_who_reads_a_tensor(analysis):
    found = [node.position for node in analysis.nodes if "val_0" in tables.searched(node).split("\n")]
    assert found == [0, 1]


def test_weights_with_their_share(analysis):
    rows = tables.weights(analysis)
    told = ["float32", "[64, 64, 1, 1]", "16 KiB", "35.2%", "-0.311 to 0.281", "", ""]
    assert texts(tables.WEIGHT_COLUMNS, rows[0])[1:] == told


def test_weights_name_the_nodes_that_read_them(analysis):
    rows = tables.weights(analysis, analysis.nodes)
    column = tables.WEIGHT_COLUMNS[-1]
    assert any(reader.startswith("Conv ") for reader in rows[0].readers)
    several = max(rows, key=lambda row: len(row.readers))
    assert column.text_of(several).endswith(f"and {len(several.readers) - 1} more")
    assert len(column.tip(several).splitlines()) == len(several.readers)
    assert sum(row.share for row in rows) == pytest.approx(1.0)
