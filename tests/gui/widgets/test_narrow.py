"""Widgets in a window as small as that of a laptop at scale 2: nothing is cut."""

import pytest
from PySide6.QtCore import Qt

from edgeopt.events import Metric
from edgeopt_gui.pages import PAGES
from edgeopt_gui.pages.live import panels

LOW, HIGH = (720, 450), (1024, 640)


@pytest.fixture
def window(open_window):
    made = open_window(PAGES)
    made.setMinimumSize(1, 1)
    return made


def test_the_names_of_the_pages_are_whole_in_a_low_window(qtbot, window):
    buttons = [window.rail.button(entry.key) for entry in PAGES]
    for size, style in (
        (HIGH, Qt.ToolButtonStyle.ToolButtonTextUnderIcon),
        (LOW, Qt.ToolButtonStyle.ToolButtonTextOnly),
        (HIGH, Qt.ToolButtonStyle.ToolButtonTextUnderIcon),
    ):
        window.resize(*size)
        qtbot.waitUntil(lambda style=style: all(each.toolButtonStyle() == style for each in buttons))
        qtbot.waitUntil(lambda: all(each.height() >= each.sizeHint().height() for each in buttons))


def test_the_ways_to_begin_fit_a_narrow_window(qtbot, window):
    window.show_page("graph")
    page = window.page("graph")
    window.resize(*LOW)
    doors = page._empty.doors
    qtbot.waitUntil(lambda: doors.mapTo(page, doors.rect().topRight()).x() <= page.width())
    assert doors.mapTo(page, doors.rect().topLeft()).x() >= 0


def test_the_legend_of_the_latency_is_whole_in_a_narrow_window(qtbot, window):
    page = window.page("live")
    page.prepare()
    qtbot.waitUntil(lambda: page.view is not None, timeout=60_000)
    for key in (panels.LATENCY, panels.P50, panels.P90, panels.P99, panels.LOAD):
        for moment in range(50):
            page.session.history.take(Metric(key, 12.34), 1e9 + moment / 10)
    window.show_page("live")
    page.show_content()
    page.view.chart.redraw()
    panel = page.view.chart.panels[0]
    labels = [panel.title, panel.logarithm, *panel.keys.values()]

    def whole():
        return all(each.width() >= each.sizeHint().width() for each in labels)

    legend = labels[-1].parentWidget()
    for size, below in ((HIGH, False), (LOW, True), (HIGH, False)):
        window.resize(*size)
        qtbot.waitUntil(
            lambda below=below: whole() and (legend.y() > panel.title.geometry().center().y()) == below
        )
        before = legend.y()
        panel.read(page.session.history.rings, 1e9 + 2)  # the values at the pointer
        qtbot.waitUntil(whole)
        assert legend.y() == before
        panel.read(page.session.history.rings, None)
    chart = page.view.chart
    assert all(each.plot.height() >= each.plot.minimumHeight() for each in chart.panels if not each.isHidden())


def test_the_tabs_of_a_comparison_scroll_in_a_low_window(qtbot, window):
    window.show_page("compare")
    page = window.page("compare")
    page.show_content()
    page._right.setCurrentWidget(page._scrolled)
    window.resize(*LOW)
    lines = page.view.tabs.fontMetrics().height()
    qtbot.waitUntil(lambda: page.view.tabs.height() >= 20 * lines)
    qtbot.waitUntil(lambda: page.view.width() <= page._scrolled.viewport().width())
