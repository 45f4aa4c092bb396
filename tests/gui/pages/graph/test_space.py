"""The canvas is the page: how much of it the graph has, how large its texts are, and when a panel opens."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest

from edgeopt.data.demo import MODEL
from edgeopt.graph.analysis import OpTimes
from edgeopt_gui.pages.graph.items import MIN_TEXT
from edgeopt_gui.pages.graph.page import ENTRY
from edgeopt_gui.pages.model.page import ENTRY as MODEL_ENTRY
from edgeopt_gui.subject import subject_at
from tests.gui.pages.graph.test_page import blocks

# A window of 720 x 450 has as many logical pixels as one of 1440 x 900 on a screen at scale 2.
SIZES = ((1440, 900, 0.75), (1024, 640, 0.70), (720, 450, 0.70))


@pytest.fixture
def window(open_window):
    return open_window((MODEL_ENTRY, ENTRY))


@pytest.fixture
def shown(qtbot, context, window):
    def open_it(path, size=(1440, 900)):
        window.setMinimumSize(1, 1)
        window.resize(*size)
        window.show_page("graph")
        page = window.page("graph")
        context.open(subject_at(path))
        qtbot.waitUntil(lambda: page.state == "content")
        qtbot.waitUntil(lambda: bool(page.view.canvas.boxes))
        return page

    return open_it


def node(page, operator):
    return next(each for each in page.context.nodes if each.operator == operator)


def text_heights(canvas):
    """Heights in pixels of all texts of boxes in view."""
    scale = canvas.transform().m11()
    view = canvas.mapToScene(canvas.viewport().rect()).boundingRect()
    items = [item for item in canvas.boxes.values() if view.intersects(item.boundingRect())]
    return [size * scale for item in items for _, size in item.texts(scale)]


def part_of_the_width(page):
    return page.view.canvas.width() / page.width()


@pytest.mark.parametrize(("wide", "high", "share"), SIZES)
def test_the_canvas_has_most_of_the_page_with_and_without_details(qtbot, shown, wide, high, share):
    page = shown(MODEL, (wide, high))
    assert page.view.details.isHidden()
    assert part_of_the_width(page) > 0.97
    page.view.pick(node(page, "Conv").position)
    qtbot.waitUntil(page.view.details.isVisible)
    QTest.qWait(0)
    assert part_of_the_width(page) >= share
    canvas = page.view.canvas
    box = canvas.boxes[canvas.selected].boundingRect()
    assert canvas.mapToScene(canvas.viewport().rect()).boundingRect().contains(box)


def test_the_details_can_be_closed_and_opened_again(qtbot, shown):
    page = shown(MODEL)
    details = page.view.details
    page.view.pick(node(page, "Conv").position)
    assert details.isVisible()
    details.close_button.click()
    page.view.pick(node(page, "Gemm").position)
    assert details.isHidden()
    page.view.panes.button.click()
    assert details.isVisible()
    page.view.canvas.select(None)
    assert details.isHidden()


def test_a_double_click_opens_a_group_before_the_details_open(qtbot, tmp_path, shown):
    page = shown(blocks(tmp_path / "blocks.onnx", 3))
    page.show_level("blocks")
    canvas = page.view.canvas
    qtbot.waitUntil(lambda: len(canvas.boxes) == 5)
    at = canvas.mapFromScene(canvas.boxes[1,].boundingRect().center())
    qtbot.mouseClick(canvas.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert canvas.selected == (1,)
    assert page.view.details.isHidden()
    qtbot.mouseDClick(canvas.viewport(), Qt.MouseButton.LeftButton, pos=at)
    qtbot.waitUntil(lambda: (1, 0) in canvas.boxes)
    qtbot.waitUntil(page.view.details.isVisible)


@pytest.mark.parametrize(("wide", "high", "share"), SIZES)
def test_every_text_at_first_view_is_readable(shown, wide, high, share):
    page = shown(MODEL, (wide, high))
    heights = text_heights(page.view.canvas)
    assert len(heights) > 4
    assert min(heights) >= MIN_TEXT >= 10
    titles = [item.texts(page.view.canvas.transform().m11())[0][1] for item in page.view.canvas.boxes.values()]
    assert max(titles) * page.view.canvas.transform().m11() >= 11


def test_folded_blocks_have_readable_names_at_first_view(qtbot, tmp_path, shown):
    page = shown(blocks(tmp_path / "blocks.onnx", 60))
    canvas = page.view.canvas
    heights = text_heights(canvas)
    assert len(heights) >= 10
    assert min(heights) >= 10
    page.view.canvas.fit()
    assert all(height >= 10 for height in text_heights(canvas))


def test_a_search_hit_is_shown_at_a_readable_size(qtbot, shown):
    page = shown(MODEL)
    page.view.canvas.fit()
    canvas = page.view.canvas
    assert canvas.transform().m11() < 0.7
    qtbot.keyClicks(page.view.search, "gemm")
    qtbot.keyClick(page.view.search, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: canvas.selected is not None)
    heights = [
        size * canvas.transform().m11()
        for _, size in canvas.boxes[canvas.selected].texts(canvas.transform().m11())
    ]
    assert len(heights) == 2
    assert min(heights) >= 10


def test_the_map_lies_in_a_corner_of_the_canvas_and_can_be_hidden(shown):
    page = shown(MODEL)
    canvas = page.view.canvas
    minimap = canvas.minimap
    assert minimap.isVisible()
    assert canvas.viewport().geometry().contains(minimap.geometry())
    assert minimap.width() * minimap.height() < 0.05 * canvas.width() * canvas.height()
    page.view.map_button.click()
    assert minimap.isHidden()
    page.view.map_button.click()
    assert minimap.isVisible()
    page.view.canvas.fit()
    assert minimap.isHidden()


def test_the_buttons_have_icons_in_the_colours_of_the_theme(shown, context):
    page = shown(MODEL)
    context.settings.keep("theme", "dark")
    for button in (page.view.map_button, page.view.panes.button, page.view.details.close_button):
        image = button.icon().pixmap(24, 24).toImage()
        inked = [
            image.pixelColor(x, y) for x in range(24) for y in range(24) if image.pixelColor(x, y).alpha() > 200
        ]
        assert inked
        assert all(colour.lightness() > 150 for colour in inked)


def test_the_banner_about_other_load_waits_for_measured_times(shown, context):
    page = shown(MODEL)
    busy = ("Other processes took 63 % of the cores.",)
    for _ in range(2):
        context.quiet.take(busy)
    assert not page.banner.isVisible()
    context.use_times([OpTimes("onnxruntime-cpu", "1", None, 20, 2.0, 0.0, 1.0, ())])
    context.changed.emit()
    assert page.banner.isVisible()


def test_the_first_view_stays_the_first_when_the_window_grows(qtbot, shown, window):
    page = shown(MODEL, (1024, 640))
    canvas = page.view.canvas
    top = min(item.box.top for item in canvas.boxes.values())
    window.resize(1440, 900)
    QTest.qWait(0)
    assert canvas.mapFromScene(QPoint(0, round(top))).y() < 60
    page.view.canvas.fit()
    window.resize(1024, 640)
    QTest.qWait(0)
    seen = canvas.mapToScene(canvas.viewport().rect()).boundingRect()
    assert seen.contains(canvas.scene().itemsBoundingRect())
