"""Widgets in a window as small as that of a laptop at scale 2: nothing is cut."""

import pytest
from PySide6.QtCore import Qt

from edgeopt_gui.pages import PAGES

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
