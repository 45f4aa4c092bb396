"""Two models side by side on the page Graph: aligned, moved together, selected together, with what changed."""

import pytest
from PySide6.QtCore import Qt

from edgeopt.data.demo import MODEL
from edgeopt.graph.analysis.records import name_of
from edgeopt_gui.context import GraphPair
from edgeopt_gui.pages.graph.page import ENTRY
from edgeopt_gui.pages.model.page import ENTRY as MODEL_ENTRY
from edgeopt_gui.subject import subject_at


def compared(window, bot, small):
    window.resize(1280, 800)
    window.show_page("graph")
    shown = window.page("graph")
    window.context.open(subject_at(MODEL))
    bot.waitUntil(lambda: shown.state == "content")
    shown.compare_with(small)
    bot.waitUntil(lambda: shown.view.pair is not None)
    return shown


@pytest.fixture(scope="module")
def page(shared_window, small):
    """The sample beside its simplified form."""
    return compared(*shared_window((MODEL_ENTRY, ENTRY)), small)


@pytest.fixture
def own_page(qtbot, open_window, small):
    """The same for a test that changes what is drawn."""
    return compared(open_window((MODEL_ENTRY, ENTRY)), qtbot, small)


def path_of(page, side, operator):
    nodes = page.view.drawn[side].diagram.nodes
    return page.view.pair.both.wiring.paths[next(node.position for node in nodes if node.operator == operator)]


def facts_of(page):
    return "\n".join(fact.value for group in page.view.facts.groups for fact in group.facts)


def view_of(canvas):
    return canvas.mapToScene(canvas.viewport().rect()).boundingRect()


def test_both_models_are_drawn_with_partners_at_the_same_place(page, small):
    first, second = page.view.linked.canvases
    assert second.isVisible()
    shared = [path for path in first.boxes if path in second.boxes]
    assert len(shared) >= len(second.boxes) > 0
    assert all(first.boxes[path].sceneBoundingRect() == second.boxes[path].sceneBoundingRect() for path in shared)
    operators = [[node.operator for node in drawn.diagram.nodes if node.operator] for drawn in page.view.drawn]
    assert len(operators[0]) > len(operators[1])
    words = {word for _, word in page.view.legend.entries}
    assert {"kept", "changed", "fused", "removed"} <= words


def test_they_move_and_zoom_together(page, qtbot):
    first, second = page.view.linked.canvases
    assert view_of(first) == view_of(second)
    second.zoom(1.7)
    assert view_of(first) == view_of(second)
    first.verticalScrollBar().setValue(first.verticalScrollBar().value() + 120)
    assert view_of(first) == view_of(second)
    page.view.canvas.fit()
    assert view_of(first) == view_of(second)


def test_a_selected_node_selects_its_counterpart_and_says_what_became_of_it(page):
    first, second = page.view.linked.canvases
    conv = path_of(page, 1, "Conv")
    second.select(conv)
    assert first.selected == conv
    facts = facts_of(page)
    assert "small.onnx" in facts
    assert "took in BatchNormalization" in facts
    norm = path_of(page, 0, "BatchNormalization")
    first.select(norm)
    assert second.selected == conv
    assert page.view.title.text() == "BatchNormalization"
    assert "fused into Conv" in facts_of(page)
    first.select(path_of(page, 0, "Shape"))
    assert second.selected is None
    assert "no counterpart" in facts_of(page)


def test_a_node_of_the_source_is_selected_on_the_other_pages_too(page, qtbot):
    gemm = next(node for node in page.context.nodes if node.operator == "Gemm")
    with qtbot.waitSignal(page.context.node_picked) as picked:
        page.view.canvas.select(path_of(page, 0, "Gemm"))
    assert picked.args == [gemm.position]
    conv = next(node for node in page.context.nodes if node.operator == "Conv")
    page.context.node_picked.emit(conv.position)
    selected = page.view.pair.both.item(page.view.canvas.selected)
    assert name_of(page.view.drawn[0].diagram.nodes[selected.position]) == name_of(conv)


def test_the_changes_are_listed_and_lead_to_their_nodes(page):
    entries = page.view.changed.records.rows
    statuses = {each.status for each in entries}
    assert {"fused", "removed"} <= statuses
    assert "Measure the nodes" in page.view.changed.summary.text()
    assert all(each.saved_ms is None for each in entries)
    fused = next(each for each in entries if each.status == "fused")
    page.view.changed.entry_requested.emit(fused)
    first, second = page.view.linked.canvases
    assert first.selected == second.selected == page.view.pair.both.wiring.paths[fused.position]
    assert view_of(second).contains(second.boxes[second.selected].sceneBoundingRect())


def test_both_are_measured_and_each_change_has_the_time_it_saves(own_page, qtbot):
    assert own_page.command().arguments[0] == "graph"
    own_page.measure()
    qtbot.waitUntil(lambda: all(drawn.times for drawn in own_page.view.drawn))
    assert own_page.view.pair is not None
    assert own_page.context.op_times == own_page.view.drawn[0].times
    entries = own_page.view.changed.records.rows
    assert any(each.saved_ms for each in entries)
    assert own_page.view.changed.summary.text().endswith("in kernels.")
    key = own_page.view.colours.findText("Measured time", Qt.MatchFlag.MatchStartsWith)
    own_page.view.colours.setCurrentIndex(key)
    own_page.view.colours.activated.emit(key)
    first, second = own_page.view.linked.canvases
    assert first.maximum == second.maximum > 0
    assert first.legend == second.legend


def test_groups_open_in_both_and_one_alone_is_shown_on_request(own_page, qtbot, tmp_path):
    first, second = own_page.view.linked.canvases
    own_page.show_level("blocks")
    qtbot.waitUntil(
        lambda: any(first.is_group(path) and not item.box.is_open for path, item in first.boxes.items())
    )
    group = next(path for path, item in second.boxes.items() if second.is_group(path) and not item.box.is_open)
    second.toggled.emit(group)
    qtbot.waitUntil(lambda: first.boxes[group].box.is_open and second.boxes[group].box.is_open)
    own_page.write_picture(tmp_path / "both.html")
    text = (tmp_path / "both.html").read_text(encoding="utf-8")
    assert '"name":"digits_cnn.onnx"' in text
    assert '"name":"small.onnx"' in text
    own_page.view.revisions.close_button.click()
    qtbot.waitUntil(lambda: own_page.view.pair is None and own_page.view.changed.isHidden())
    assert not second.isVisible()
    assert own_page.command().arguments[0] == "analyze"


def test_a_node_of_the_page_compare_is_shown_in_both(page, small, qtbot):
    gemm = next(node for node in page.context.nodes if node.operator == "Gemm")
    page.context.show_in_graph(GraphPair(gemm.position, small))
    first, second = page.view.linked.canvases
    qtbot.waitUntil(lambda: first.selected == path_of(page, 0, "Gemm"))
    assert second.selected == first.selected
