"""What the page Graph shows of the sample, which is drawn once for all these tests."""

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QImage, QPainter, QWheelEvent
from PySide6.QtWidgets import QStyleOptionGraphicsItem

from edgeopt.data.demo import MODEL
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.pages.graph.page import ENTRY
from edgeopt_gui.pages.model.page import ENTRY as MODEL_ENTRY
from edgeopt_gui.subject import subject_at


@pytest.fixture(scope="module")
def drawn(shared_window):
    window, bot = shared_window((MODEL_ENTRY, ENTRY))
    window.show_page("graph")
    page = window.page("graph")
    window.context.open(subject_at(MODEL))
    bot.waitUntil(lambda: page.state == "content")
    return page


@pytest.fixture
def page(drawn):
    """As it is when the model was opened."""
    drawn.view.canvas.select(None)
    drawn.view.canvas.begin()
    return drawn


def test_every_node_of_the_sample_is_a_box_and_the_legend_names_its_categories(page):
    positions = {page.view.canvas.walk.position(path) for path in page.view.canvas.walk.boxes}
    nodes = page.context.nodes
    assert {node.position for node in nodes if node.operator != "Constant"} <= positions
    assert {text for _, text in page.view.legend.entries} >= {"convolution", "normalization"}


def test_the_map_of_a_hidden_page_takes_the_colours_of_another_theme(page):
    window, minimap = page.window(), page.view.canvas.minimap
    window.show_page("model")
    page.context.settings.keep("theme", "dark")
    try:
        drawn_hidden = minimap._picture.toImage()
        window.show_page("graph")
        minimap._draw()
        assert minimap._picture.toImage() == drawn_hidden
    finally:
        page.context.settings.keep("theme", "light")


def test_the_legend_has_every_entry_in_any_width(page):
    legend = page.view.legend
    assert len(list(legend.places(120))) == len(legend.entries)
    assert all(place.right() < 160 for place in legend.places(120))
    assert legend.heightForWidth(120) > 2 * legend.heightForWidth(4000)
    assert legend.height() == legend.heightForWidth(legend.width())


def test_the_arrow_keys_walk_and_the_panel_follows(qtbot, page):
    canvas = page.view.canvas
    canvas.setFocus()
    qtbot.keyClick(canvas, Qt.Key.Key_Down)
    assert page.view.title.text() == "Input"
    qtbot.keyClick(canvas, Qt.Key.Key_Down)
    first = page.view.facts.groups[0].facts
    assert ("Operator", page.view.title.text()) in [(fact.name, fact.value) for fact in first]
    qtbot.keyClick(canvas, Qt.Key.Key_Up)
    assert page.view.title.text() == "Input"


def test_attributes_of_the_selected_node_are_listed(page):
    convolution = next(node for node in page.context.nodes if node.operator == "Conv")
    page.view.pick(convolution.position)
    facts = {fact.name: fact.value for fact in page.view.facts.groups[0].facts}
    assert facts["kernel_shape"] == convolution.attributes["kernel_shape"]
    assert facts["kernel_shape"]


def test_a_node_picked_on_one_page_is_picked_on_the_other(page):
    table = page.window().page("model").view.nodes
    node = next(node for node in page.context.nodes if node.operator == "Gemm")
    table.pick(node.position)
    assert page.view.canvas.selected == page.view.diagram.wiring.paths[node.position]
    other = next(node for node in page.context.nodes if node.operator == "Conv")
    page.view.canvas.select(page.view.diagram.wiring.paths[other.position])
    assert table.table.current.position == other.position


def test_the_wheel_zooms_to_the_point_under_the_cursor(page):
    canvas = page.view.canvas
    canvas.resetTransform()
    at = QPointF(canvas.viewport().rect().center())
    before = canvas.mapToScene(at.toPoint())
    turn = QPoint(0, 240)
    canvas.wheelEvent(
        QWheelEvent(
            at, at, QPoint(), turn, Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier,
            Qt.ScrollPhase.NoScrollPhase, False,
        )
    )  # fmt: skip
    assert canvas.transform().m11() > 1.2
    after = canvas.mapToScene(at.toPoint())
    assert abs(after.y() - before.y()) < 20


def test_a_picture_that_cannot_be_written_is_reported(tmp_path, page):
    reports = []
    page.context.failed.connect(reports.append)
    page.write_picture(tmp_path / "nowhere" / "graph.svg")
    page.write_picture(tmp_path / "nowhere" / "graph.png")
    assert [isinstance(report, Ending) and report.what[:34] for report in reports] == [
        "The picture cannot be written: [Er",
        f"The picture cannot be written: '{tmp_path}"[:34],
    ]


def test_a_model_alone_has_the_whole_width(page):
    page.window().resize(1280, 800)
    canvas, minimap = page.view.canvas, page.view.canvas.minimap
    assert canvas.width() > 0.75 * canvas.parentWidget().width()
    assert minimap.geometry().left() - canvas.geometry().right() < 20


def test_lines_enclose_no_coloured_area(page):
    """Qt gives a line's item the brush of the box before it."""
    canvas = page.view.canvas
    line = next(line for line in canvas.lines if len(line.line.knots) > 3)
    image = QImage(200, 200, QImage.Format.Format_RGB32)
    image.fill(Qt.GlobalColor.white)
    painter = QPainter(image)
    bounds = line.boundingRect()
    painter.setWindow(bounds.toAlignedRect())
    painter.setBrush(Qt.GlobalColor.red)
    option = QStyleOptionGraphicsItem()
    option.exposedRect = bounds
    line.paint(painter, option)
    painter.end()
    colours = {image.pixelColor(x, y).name() for x in range(200) for y in range(200)}
    assert "#ff0000" not in colours
