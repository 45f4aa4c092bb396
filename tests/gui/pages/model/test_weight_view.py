import msgspec
import numpy as np
import onnx_ir as ir
import pytest
from PySide6.QtCore import Qt

from edgeopt.data.demo import MODEL
from edgeopt.graph.analysis import WeightRow
from edgeopt.graph.analysis.weights import content as content_of
from edgeopt_gui.pages.graph.page import ENTRY as GRAPH
from edgeopt_gui.pages.model.page import ENTRY
from edgeopt_gui.pages.model.tables import Weight
from edgeopt_gui.pages.model.weight_view import WeightView
from edgeopt_gui.subject import subject_at


@pytest.fixture
def view(qtbot):
    made = WeightView()
    qtbot.addWidget(made)
    made.resize(400, 300)
    return made


def weight_of(array, readers=("Conv a",)):
    held = content_of(ir.tensor(array))
    row = WeightRow("w", str(array.dtype), array.shape, array.nbytes, array.size)
    known = {"zeros_share": held.zeros_share, "minimum": held.minimum, "maximum": held.maximum}
    return Weight(0, msgspec.structs.replace(row, **known, histogram=held.histogram), 0.25, readers)


def shown(view):
    return {fact.name: fact.value for group in view.facts.groups for fact in group.facts}


def coloured_columns(view):
    """How many pixels of a column differ from the background, from left to right, above the labels."""
    image = view.bars.grab().toImage()
    high = image.height() - view.fontMetrics().height() - 6
    background = image.pixel(0, 0)
    return [sum(image.pixel(x, y) != background for y in range(high)) for x in range(image.width())]


def test_a_weight_shows_its_range_zeros_readers_and_histogram(view):
    values = np.array([-1, 0, 0, 0, 0, 0, 0, 3], np.float32)
    view.show_weight(weight_of(values, ("Conv a", "Gemm b")))
    assert shown(view)["Range"] == "-1 to 3"
    assert shown(view)["Zeros"] == "75.0%"
    assert [fact.value for fact in view.facts.groups[0].facts if fact.name == "Read by"] == ["Conv a", "Gemm b"]
    assert sum(view.bars.counts) == 8
    assert not view.sample.isVisibleTo(view)
    columns = coloured_columns(view)
    assert columns.index(max(columns)) == pytest.approx(len(columns) / 4, abs=len(columns) / 32)


def test_a_sample_is_said_to_be_one(view):
    view.show_weight(weight_of(np.arange(1 << 20, dtype=np.int64)))
    assert view.sample.text().endswith("of 1,048,576 values, sampled evenly.")


def test_without_a_histogram_it_says_why(view):
    view.show_weight(weight_of(np.ones(4, np.float32)))
    assert view.sample.text() == "All values are equal."
    assert not view.bars.isVisibleTo(view)
    view.show_weight(Weight(0, WeightRow("w", "float32", (4,), 16, 4), 1.0), "nobody looked")
    assert view.sample.text() == "Its values were not read: nobody looked."
    view.show_weight(None)
    assert not view.isVisible()


def test_the_weight_under_the_cursor_is_shown_on_the_page_model(qtbot, open_window, context):
    page = open_window((ENTRY,)).page("model")
    context.open(subject_at(MODEL))
    qtbot.waitUntil(lambda: bool(page.view.weights_table.current and page.view.weights_table.current.readers))
    table, view = page.view.weights_table, page.view.weight
    assert view.title.text() == f"Weight {table.current.row.name}"
    qtbot.keyClick(table, Qt.Key.Key_Down)
    assert view.title.text() == f"Weight {table.current.row.name}"
    readers = [fact.value for fact in view.facts.groups[0].facts if fact.name == "Read by"]
    assert readers == list(table.current.readers)
    assert sum(view.bars.counts) == table.current.row.parameters


def test_the_page_graph_shows_the_largest_weight_of_a_node_and_another_on_a_click(qtbot, open_window, context):
    window = open_window((ENTRY, GRAPH))
    window.show_page("graph")
    page = window.page("graph")
    context.open(subject_at(MODEL))
    qtbot.waitUntil(lambda: page.state == "content")
    node = next(each for each in context.nodes if each.operator == "Gemm")
    page.view.pick(node.position)
    _, weight, bias = node.inputs
    assert page.view.weight.title.text() == f"Weight {weight.name}"
    assert sum(page.view.weight.bars.counts)
    link = next(fact.link for fact in page.view.facts.groups[0].facts if fact.value.startswith(bias.name))
    page.view.facts.followed.emit(link)
    assert page.view.weight.title.text() == f"Weight {bias.name}"
    page.view.canvas.select((0,))
    assert not page.view.weight.isVisible()
