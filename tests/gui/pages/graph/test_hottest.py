"""Where the time goes: the list of kernels, the way to their nodes, and the measured times of the page Model."""

import onnx
import pytest
from PySide6.QtCore import Qt

from edgeopt.data.demo import MODEL
from edgeopt.graph.analysis import OpTimeRow, OpTimes
from edgeopt.graph.analysis.records import name_of
from edgeopt_gui.pages.graph.page import ENTRY
from edgeopt_gui.pages.model.page import ENTRY as MODEL_ENTRY
from edgeopt_gui.pages.model.tables import MEASURED
from edgeopt_gui.subject import subject_at

OPEN = """<ir_version: 10, opset_import: ["": 21]>
open (float[1,3,width] image) => (float[1,3,width] out) { out = Relu (image) }"""


@pytest.fixture
def window(open_window):
    return open_window((MODEL_ENTRY, ENTRY))


@pytest.fixture
def page(qtbot, context, window):
    window.show_page("graph")
    page = window.page("graph")
    context.open(subject_at(MODEL))
    qtbot.waitUntil(lambda: page.state == "content")
    return page


def measured(page, *rows, backend="onnxruntime-cpu", runs=20, run_ms=2.0):
    total = sum(row.time_ms for row in rows)
    times = OpTimes(backend, "1", None, runs, run_ms, total, 1.0, rows)
    page.context.use_times((*page.context.op_times, times))
    page.view.set_times(page.context.op_times)


def named(page, operator):
    return next(node for node in page.context.nodes if node.operator == operator)


def cell(model, row, title, role=Qt.ItemDataRole.DisplayRole):
    column = next(place for place, each in enumerate(model.columns) if each.title == title)
    return model.data(model.index(row, column), role)


def test_without_measured_times_there_is_no_list_and_no_column(page, window):
    table = window.page("model").view.nodes.table
    titles = [column.title for column in table.records.columns]
    assert page.view.hottest.isHidden()
    assert table.isColumnHidden(titles.index(MEASURED))


def test_enter_on_a_kernel_shows_its_node_in_a_folded_group(qtbot, page):
    conv, gemm = named(page, "Conv"), named(page, "Gemm")
    measured(
        page,
        OpTimeRow("c", "FusedConv", 1.0, 0.8, (name_of(conv), "other"), range_ms=(0.9, 1.1)),
        OpTimeRow("g", "Gemm", 0.25, 0.2, (name_of(gemm),)),
    )
    page.show_level("blocks")
    hottest = page.view.hottest
    assert hottest.isVisible()
    assert hottest.summary.text() == "onnxruntime-cpu: 1.25 ms in kernels, 20 runs"
    assert cell(hottest.records, 0, "Nodes") == f"{name_of(conv)} +1"
    assert [cell(hottest.records, 0, title) for title in ("Time", "Share", "Spread")] == [
        "1.00 ms",
        "80.0 %",
        "±10 %",
    ]
    hottest.table.selectRow(1)
    qtbot.keyClick(hottest.table, Qt.Key.Key_Return)
    paths = page.view.diagram.wiring.paths
    qtbot.waitUntil(lambda: page.view.canvas.selected == paths[gemm.position])


def test_the_list_shows_the_fastest_runtime_or_the_one_that_colours_the_graph(page):
    row = OpTimeRow("c", "Conv", 1.0, 1.0, (name_of(named(page, "Conv")),))
    measured(page, row, backend="slow", run_ms=3.0)
    measured(page, row, backend="fast", run_ms=2.0)
    assert page.view.hottest.summary.text().startswith("fast:")
    page.view.choose_colours("ms:slow")
    assert page.view.hottest.summary.text().startswith("slow:")


def test_an_unreliable_time_is_grey_and_says_why(page, window):
    conv, gemm = named(page, "Conv"), named(page, "Gemm")
    measured(
        page,
        OpTimeRow("c", "Conv", 24.4, 0.99, (name_of(conv),), range_ms=(0.1, 48.8)),
        OpTimeRow("g", "Gemm", 0.25, 0.01, (name_of(gemm),), range_ms=(0.24, 0.26)),
    )
    records = page.view.hottest.records
    assert cell(records, 0, "Time", Qt.ItemDataRole.ForegroundRole) is not None
    assert "differ by more" in cell(records, 0, "Time", Qt.ItemDataRole.ToolTipRole)
    assert cell(records, 1, "Time", Qt.ItemDataRole.ForegroundRole) is None
    nodes = window.page("model").view.nodes.records
    at = nodes.position((conv.inside, conv.position))
    assert cell(nodes, at, MEASURED) == "24.4 ms, 99.0 %"
    assert "differ by more" in cell(nodes, at, MEASURED, Qt.ItemDataRole.ToolTipRole)


def test_operators_have_the_measured_time_of_their_nodes(page, window):
    convs = [node for node in page.context.nodes if node.operator == "Conv"][:2]
    measured(page, *(OpTimeRow("c", "Conv", 1.0, 0.5, (name_of(node),)) for node in convs))
    table = window.page("model").view.operators_table
    at = table.records.position(("Conv", convs[0].domain))
    assert cell(table.records, at, MEASURED) == "2.00 ms, 100.0 %"


def test_times_of_another_model_are_forgotten(qtbot, tmp_path, page, context):
    measured(page, OpTimeRow("c", "Conv", 1.0, 1.0, (name_of(named(page, "Conv")),)))
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(MODEL.read_bytes())
    context.open(subject_at(copy))
    qtbot.waitUntil(lambda: page.state == "content")
    assert context.op_times == ()
    assert page.view.hottest.isHidden()


def test_the_list_says_which_sizes_of_open_dimensions_were_measured(qtbot, page, window, tmp_path):
    open_model = tmp_path / "open.onnx"
    onnx.save(onnx.parser.parse_model(OPEN), open_model)
    page.context.open(subject_at(open_model))
    qtbot.waitUntil(lambda: page.state == "content" and page.context.nodes[0].operator == "Relu")
    window.book["graph.measure"].shown.trigger()
    qtbot.waitUntil(lambda: bool(page.context.op_times), timeout=60_000)
    assert page.view.hottest.summary.text().endswith("runs, at width = 64 (assumed)")
    page.context.open(subject_at(MODEL))  # with no open dimension
    qtbot.waitUntil(lambda: page.state == "content" and page.context.nodes[0].operator != "Relu")
    measured(page, OpTimeRow("c", "Conv", 1.0, 0.8, (name_of(named(page, "Conv")),)))
    assert page.view.hottest.summary.text().endswith("20 runs")
