import pytest

from edgeopt.analyzing.analyze import analyze
from edgeopt.samples import MODEL
from edgeopt_gui.pages.model import tables


@pytest.fixture(scope="module")
def analysis():
    return analyze(MODEL)


def texts(columns, row):
    return [column.text_of(row) for column in columns]


def test_ports(analysis):
    assert [texts(tables.PORT_COLUMNS, port) for port in tables.ports(analysis)] == [
        ["input", "image", "float32", "[batch, 1, 32, 32]"],
        ["output", "logits", "float32", "[batch, 10]"],
    ]


def test_nodes(analysis):
    conv = next(node for node in analysis.nodes if node.operator == "Conv")
    assert texts(tables.NODE_COLUMNS, conv) == ["8", "Conv", "node_conv2d", "[batch, 24, 32, 32]", "864 bytes"]


def test_the_search_finds_who_makes_and_who_reads_a_tensor(analysis):
    found = [node.position for node in analysis.nodes if "val_0" in tables.searched(node).split("\n")]
    assert found == [0, 1]


def test_weights_with_their_share(analysis):
    rows = tables.weights(analysis)
    assert texts(tables.WEIGHT_COLUMNS, rows[0])[1:] == ["float32", "[64, 64, 1, 1]", "16.0 KiB", "35.2%"]
    assert sum(row.share for row in rows) == pytest.approx(1.0)
