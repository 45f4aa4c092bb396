"""The page Graph with the real command line: reading, opening groups, searching, walking, measuring, exporting."""

from xml.etree import ElementTree as ET

import msgspec
import pytest
from onnx import TensorProto, helper, save
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QLabel

from edgeopt.data.demo import MODEL
from edgeopt.graph.analysis import CoverageRow, OpTimeRow, OpTimes
from edgeopt.graph.analysis.records import Opportunity, name_of
from edgeopt_gui.context import GraphPair
from edgeopt_gui.pages.graph.page import ENTRY
from edgeopt_gui.pages.model.page import ENTRY as MODEL_ENTRY
from edgeopt_gui.subject import subject_at
from edgeopt_gui.widgets import dialogs

BLOCK = ("Relu", "Abs", "Neg", "Sigmoid", "Tanh", "Exp", "Sqrt", "Floor", "Ceil")


@pytest.fixture
def window(qtbot, open_window):
    return open_window((MODEL_ENTRY, ENTRY))


@pytest.fixture
def shown(qtbot, context, window):
    """Opens a model and waits until its graph is there."""

    def open_it(path):
        window.show_page("graph")
        page = window.page("graph")
        context.open(subject_at(path))
        qtbot.waitUntil(lambda: page.state != "busy")
        return page

    return open_it


def blocks(path, count):
    """A model of so many equal blocks."""
    operators = [operator for _ in range(count) for operator in BLOCK]
    nodes = [helper.make_node(op, [f"t{at}"], [f"t{at + 1}"], name=f"n{at}") for at, op in enumerate(operators)]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in ("t0", f"t{len(operators)}")
    ]
    graph = helper.make_graph(nodes, "blocks", ends[:1], ends[1:])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def test_without_a_model_it_offers_to_open_one(window):
    page = window.page("graph")
    assert page.state == "empty"
    assert page.command() is None
    for action in ("measure", "fit", "blocks", "nodes", "export"):
        assert not window.book[f"graph.{action}"].shown.isEnabled()


def test_a_file_that_cannot_be_read_is_an_error_here_too(tmp_path, shown):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(MODEL.read_bytes()[:2000])
    assert shown(broken).state == "error"


def test_groups_fold_and_open_and_their_box_stays_in_place(qtbot, tmp_path, shown):
    page = shown(blocks(tmp_path / "blocks.onnx", 3))
    canvas = page.view.canvas
    group = (2,)
    assert canvas.is_group(group)
    canvas.centerOn(canvas.boxes[group].boundingRect().center())
    before = canvas.mapFromScene(canvas.boxes[group].boundingRect().topLeft()).y()
    canvas.select(group, centre=False)
    qtbot.keyClick(canvas, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: (2, 0) not in canvas.boxes)
    after = canvas.mapFromScene(canvas.boxes[group].boundingRect().topLeft()).y()
    assert abs(after - before) <= 2
    qtbot.keyClick(canvas, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: (2, 0) in canvas.boxes)


def test_the_levels_fold_and_open_groups(qtbot, tmp_path, shown, window):
    page = shown(blocks(tmp_path / "blocks.onnx", 3))
    canvas = page.view.canvas
    window.book["graph.blocks"].shown.trigger()
    qtbot.waitUntil(lambda: len(canvas.boxes) == 5)
    window.book["graph.nodes"].shown.trigger()
    qtbot.waitUntil(lambda: len(canvas.boxes) == 5 + 27)
    assert page.view.levels.currentText() == "Nodes"
    canvas.toggled.emit((1,))
    qtbot.waitUntil(lambda: len(canvas.boxes) == 5 + 18)
    assert page.view.levels.currentIndex() == -1
    page.view.levels.activated.emit(page.view.levels.findData("blocks"))
    qtbot.waitUntil(lambda: len(canvas.boxes) == 5)


def test_a_folded_group_is_filled_at_every_zoom_and_says_what_it_does(qtbot, tmp_path, shown):
    page = shown(blocks(tmp_path / "blocks.onnx", 3))
    page.show_level("blocks")
    canvas = page.view.canvas
    qtbot.waitUntil(lambda: len(canvas.boxes) == 5)
    item = canvas.boxes[1,]
    assert (item.second, item.fill.name()) == ("9 nodes, 1x4", dict(map(reversed, canvas.legend))["element-wise"])
    for scale in (0.1, 0.3, 0.6, 1.0):
        canvas.resetTransform()
        canvas.scale(scale, scale)
        canvas.centerOn(item.boundingRect().center())
        corner = canvas.mapFromScene(item.boundingRect().center()).x()
        inner = canvas.mapFromScene(item.boundingRect().topLeft() + QPointF(14, 9)).y()
        assert canvas.grab().toImage().pixelColor(corner, inner) == item.fill, scale
    canvas.select((1,))
    facts = {fact.name: fact.value for fact in page.view.facts.groups[0].facts}
    assert facts["Nodes"] == "9"
    assert facts["Output"] == "1x4"
    assert facts["Moved"].endswith("bytes")
    assert "9 Relu" not in facts["Operators"]


def test_the_selection_of_another_model_is_forgotten(qtbot, tmp_path, shown, window, context):
    page, table = shown(blocks(tmp_path / "blocks.onnx", 3)), window.page("model").view.nodes
    table.pick(20)
    assert table.table.current.position == 20
    counts = []
    table.records.modelReset.connect(lambda: counts.append(table.bar.findChild(QLabel, "count").text()))
    shown(blocks(tmp_path / "more.onnx", 4))
    qtbot.waitUntil(lambda: len(context.nodes) == 36 and page.state == "content")
    assert table.table.current.position != 20
    assert page.view.canvas.selected is None
    assert "0 nodes" not in counts


def test_search_marks_hits_and_enter_opens_the_group_around_the_next(qtbot, tmp_path, shown):
    page = shown(blocks(tmp_path / "blocks.onnx", 3))
    page.show_level("blocks")
    canvas = page.view.canvas
    qtbot.waitUntil(lambda: len(canvas.boxes) == 5)
    qtbot.keyClicks(page.view.search, "tanh")
    assert page.view.hits_count.text() == "3 found"
    assert [path for path, item in canvas.boxes.items() if item.found] == [(1,), (2,), (3,)]
    qtbot.keyClick(page.view.search, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: canvas.selected == (1, 4))
    assert page.view.hits_count.text() == "1 of 3"
    assert page.view.title.text() == "Tanh"


def test_measured_times_colour_the_graph(qtbot, shown, window, conv_model):
    page = shown(conv_model)
    window.book["graph.measure"].shown.trigger()
    assert not window.book["graph.measure"].shown.isEnabled()
    qtbot.waitUntil(lambda: page._job is None, timeout=120_000)
    assert page.view.colouring.key.startswith("ms:")
    times = [fill.text for fill in page.view.colouring.fills if fill is not None]
    assert any(text.endswith("s") for text in times)
    convolution = next(node for node in page.context.nodes if node.operator == "Conv")
    page.view.pick(convolution.position)
    assert [group.title for group in page.view.facts.groups][-1] == "Measured"


def test_pictures_of_the_whole_graph_are_written(tmp_path, shown):
    page = shown(blocks(tmp_path / "blocks.onnx", 1))
    page.write_picture(tmp_path / "graph.svg")
    tree = ET.fromstring((tmp_path / "graph.svg").read_text())  # noqa: S314 - our own text
    assert "Sigmoid" in [text.text for text in tree.iter("{http://www.w3.org/2000/svg}text")]
    page.write_picture(tmp_path / "graph.html")
    assert '"Operator category"' in (tmp_path / "graph.html").read_text()
    page.write_picture(tmp_path / "graph.png")
    assert QImage(str(tmp_path / "graph.png")).height() > page.scene.height


def test_another_model_replaces_the_graph_and_its_search(qtbot, tmp_path, shown):
    page = shown(MODEL)
    qtbot.keyClicks(page.view.search, "conv")
    page = shown(blocks(tmp_path / "blocks.onnx", 3))
    qtbot.waitUntil(lambda: page.state == "content")
    assert page.view.search.text() == ""
    assert page.view.canvas.selected is None
    assert len(page.context.nodes) == 27


def test_the_passes_are_stepped_through_and_the_selected_node_stays(qtbot, shown, window):
    page = shown(MODEL)
    canvas, bar = page.view.canvas, page.view.revisions
    gemm = next(node for node in page.context.nodes if node.operator == "Gemm")
    page.view.pick(gemm.position)
    assert bar.isHidden()
    qtbot.mouseClick(page.view.rewrites, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: bar.isVisible() and page.view.colouring.key == "change")
    qtbot.waitUntil(page.view.rewrites.isHidden)
    assert bar.label.text().startswith(f"2 of {bar.slider.maximum() + 1}: ")
    assert page.view.title.text() == "Gemm"
    place = canvas.mapFromScene(canvas.boxes[canvas.selected].boundingRect().topLeft())
    before = page.view.diagram
    bar.slider.setValue(bar.slider.maximum())
    qtbot.waitUntil(lambda: page.view.diagram is not before)
    assert len(page.view.diagram.nodes) < len(page.context.nodes)
    assert page.view.title.text() == "Gemm"
    after = canvas.mapFromScene(canvas.boxes[canvas.selected].boundingRect().topLeft())
    assert (after - place).manhattanLength() <= 4
    bar.close_button.click()
    qtbot.waitUntil(lambda: len(page.view.diagram.nodes) == len(page.context.nodes))
    assert bar.isHidden()
    assert page.view.colours.findData("change") == -1
    qtbot.waitUntil(page.view.rewrites.isVisible)


def test_rewrites_are_offered_only_if_a_pass_changes_the_model(qtbot, shown):
    page = shown(MODEL)
    analysis, button = page.context.analysis, page.view.rewrites
    assert button.isVisible(), "not known yet"
    coverage = (CoverageRow("onnxruntime-cpu", "ONNX Runtime"),)
    rewrite = Opportunity("layout", "Remove it", "why", command="edgeopt simplify m.onnx -o out.onnx")
    for found, visible in (((), False), ((rewrite,), True)):
        page.view.offer_rewrites(msgspec.structs.replace(analysis, opportunities=found, coverage=coverage))
        assert button.isVisible() == visible


def test_times_colours_and_selection_stay_when_the_rewrites_are_closed(qtbot, shown, window):
    page = shown(MODEL)
    gemm = next(node for node in page.context.nodes if node.operator == "Gemm")
    row = OpTimeRow("g", "Gemm", 0.25, 1.0, (name_of(gemm),))
    page.context.use_times((OpTimes("onnxruntime-cpu", "1", None, 20, 2.0, 0.25, 1.0, (row,)),))
    page.view.set_times(page.context.op_times)
    times = page.context.op_times
    page.view.pick(gemm.position)
    window.book["graph.passes"].shown.trigger()
    bar = page.view.revisions
    qtbot.waitUntil(lambda: bar.isVisible() and page.view.colouring.key == "change")
    bar.slider.setValue(bar.slider.maximum())
    qtbot.waitUntil(lambda: len(page.view.diagram.nodes) < len(page.context.nodes))
    canvas = page.view.canvas
    place = canvas.mapFromScene(canvas.boxes[canvas.selected].boundingRect().topLeft())
    bar.close_button.click()
    qtbot.waitUntil(lambda: len(page.view.diagram.nodes) == len(page.context.nodes))
    assert page.context.op_times == times
    assert page.view.colouring.key == "ms:onnxruntime-cpu"
    assert not page.view.hottest.isHidden()
    assert canvas.selected == page.view.diagram.wiring.paths[gemm.position]
    assert page.view.title.text() == "Gemm"
    after = canvas.mapFromScene(canvas.boxes[canvas.selected].boundingRect().topLeft())
    assert (after - place).manhattanLength() <= 4


def test_the_whole_graph_is_in_sight_beside_the_scroll_bars(qtbot, shown, window, tmp_path):
    page = shown(blocks(tmp_path / "blocks.onnx", 60))
    window.resize(1280, 800)
    canvas = page.view.canvas
    page.show_level("nodes")
    qtbot.waitUntil(lambda: len(canvas.boxes) > 500)
    canvas.scale(0.001, 0.001)  # no scroll bars
    page.view.canvas.fit()
    bars = canvas.verticalScrollBar().sizeHint().width(), canvas.horizontalScrollBar().sizeHint().height()
    seen = canvas.mapToScene(canvas.viewport().rect()).boundingRect()
    assert seen.contains(canvas.scene().itemsBoundingRect())
    fitted = canvas.transform().m11()
    room = canvas.maximumViewportSize().toTuple()
    whole = canvas.scene().itemsBoundingRect()
    assert whole.width() * fitted <= room[0] - bars[0]
    assert whole.height() * fitted <= room[1] - bars[1]
    qtbot.wait(50)
    page.view.canvas.fit()
    assert canvas.transform().m11() == fitted


def test_blocks_are_in_sight_as_a_whole_when_a_model_opens(qtbot, shown, window, tmp_path):
    """The first block was in the middle, and the last column of three beyond the edge."""
    window.resize(1280, 800)
    page = shown(blocks(tmp_path / "blocks.onnx", 60))
    canvas = page.view.canvas
    qtbot.waitUntil(lambda: len(canvas.boxes) > 5)
    seen = canvas.mapToScene(canvas.viewport().rect()).boundingRect()
    assert seen.contains(canvas.scene().itemsBoundingRect())
    assert canvas.transform().m11() >= 0.45


def test_another_model_is_compared_and_its_nodes_say_what_they_were(qtbot, small, shown, window):
    page = shown(MODEL)
    page.compare_with(small)
    assert window.book["graph.against"].shown.isEnabled() is False
    qtbot.waitUntil(lambda: page.view.pair is not None)
    page.view.revisions.beside.setChecked(False)
    qtbot.waitUntil(lambda: page.view.pair is None)
    assert len(page.view.diagram.nodes) < len(page.context.nodes)
    assert not page.view.second.isVisible()
    words = {word for _, word in page.view.legend.entries}
    assert "kept" in words
    page.view.revisions.slider.setValue(0)
    qtbot.waitUntil(lambda: len(page.view.diagram.nodes) == len(page.context.nodes))
    assert {word for _, word in page.view.legend.entries} & {"removed", "fused", "changed"}


def test_the_folder_of_a_saved_bundle_is_compared_too(qtbot, monkeypatch, conv_model, conv_bundle, shown, window):
    page = shown(conv_model)
    assert conv_bundle.is_dir()
    monkeypatch.setattr(dialogs, "choose_folder", lambda *_: conv_bundle)
    window.book["graph.against-folder"].shown.trigger()
    qtbot.waitUntil(lambda: page.view.pair is not None)
    assert page.view.second.isVisible()


def test_a_node_is_shown_beside_another_model_which_is_compared_once(qtbot, small, shown, context):
    page, started = shown(MODEL), []
    context.jobs.started.connect(started.append)
    first, second = [node for node in context.nodes if node.operator in {"Conv", "Gemm"}][-2:]
    context.show_in_graph(GraphPair(first.position, small))
    context.show_in_graph(GraphPair(second.position, small))
    qtbot.waitUntil(lambda: page.view.colouring.key == "change")
    assert page.view.title.text() == second.operator
    page.view.revisions.beside.setChecked(False)
    page.view.revisions.slider.setValue(1)
    qtbot.waitUntil(lambda: page.view.pair is None and len(page.view.diagram.nodes) < len(context.nodes))
    context.show_in_graph(GraphPair(first.position, small))
    qtbot.waitUntil(lambda: len(page.view.diagram.nodes) == len(context.nodes))
    assert page.view.revisions.slider.value() == 0
    canvas = page.view.canvas
    assert canvas.selected == page.view.diagram.wiring.paths[first.position]
    seen = canvas.mapToScene(canvas.viewport().rect()).boundingRect()
    assert seen.contains(canvas.boxes[canvas.selected].sceneBoundingRect())
    assert len(started) == 1


def test_another_model_that_cannot_be_drawn_is_one_sentence_beside_the_node(qtbot, tmp_path, shown, context):
    openvino = pytest.importorskip("openvino")
    openvino.save_model(openvino.convert_model(MODEL), tmp_path / "model.xml")
    page = shown(MODEL)
    gemm = next(node for node in context.nodes if node.operator == "Gemm")
    with qtbot.waitSignal(context.status_message) as said:
        context.show_in_graph(GraphPair(gemm.position, tmp_path / "model.xml"))
    assert said.args[0].startswith("model.xml cannot be drawn beside it: 'model.xml' holds an OpenVINO IR.")
    assert page.view.title.text() == "Gemm"
    assert page.view.revisions.isHidden()


def test_a_file_that_cannot_be_compared_is_reported(qtbot, tmp_path, shown, context):
    page = shown(MODEL)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(MODEL.read_bytes()[:2000])
    with qtbot.waitSignal(context.failed) as failed:
        page.compare_with(broken)
    assert "broken.onnx" in failed.args[0].what
    assert page.state == "content"
    assert page.why_no_revisions() == ""


def test_another_model_ends_the_making_of_revisions(qtbot, tmp_path, context, shown, window):
    page = shown(MODEL)
    page.step_through_passes()
    (job,) = context.jobs.jobs
    with qtbot.waitSignal(job.ended) as ended:
        context.open(subject_at(blocks(tmp_path / "blocks.onnx", 3)))
    assert ended.args[0].how == "cancelled"
    qtbot.waitUntil(lambda: page.state == "content")
    assert page.why_no_revisions() == ""
    assert page.view.revisions.isHidden()
