"""Where the focus is can be seen, on every stop of every page."""

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import QApplication, QTabWidget, QWidget

from edgeopt.data.demo import MODEL
from edgeopt_gui.subject import Subject


def stops(within):
    return [
        each
        for each in within.findChildren(QWidget)
        if each.isVisible()
        and each.isEnabled()
        and each.focusPolicy() & Qt.FocusPolicy.TabFocus
        and each.focusProxy() is None
        and not each.visibleRegion().isEmpty()
    ]


def picture(window, widget):
    QApplication.processEvents()
    place = QRect(widget.mapTo(window, QPoint(0, 0)), widget.size()).adjusted(-4, -4, 4, 4)
    return window.grab(place).toImage()


def unmarked(window, within):
    found = []
    for each in stops(within):
        if (now := window.focusWidget()) is not None:
            now.clearFocus()
        before = picture(window, each)
        each.setFocus(Qt.FocusReason.TabFocusReason)
        if picture(window, each) == before:
            found.append(f"{type(each).__name__} {each.objectName()} {each.accessibleName()}")
    return found


@pytest.fixture
def window(qtbot, context, open_window):
    made = open_window()
    made.setAttribute(Qt.WidgetAttribute.WA_KeyboardFocusChange)  # as after a Tab key
    context.open(Subject(MODEL, "model"))
    qtbot.waitUntil(lambda: context.nodes != () and context.jobs.jobs == ())
    made.activateWindow()
    qtbot.waitUntil(made.isActiveWindow)
    return made


def test_every_stop_shows_the_focus(qtbot, window):
    for key in ("model", "graph", "optimize", "compare", "live"):
        window.show_page(key)
        page = window.page(key)
        qtbot.waitUntil(lambda page=page: page.state != "busy")
        shown = [each for each in page.findChildren(QTabWidget) if each.isVisible()]
        for place in range(max((each.count() for each in shown), default=1)):
            for each in shown:
                each.setCurrentIndex(min(place, each.count() - 1))
            assert unmarked(window, page) == [], key
        assert unmarked(window, window.header) == [], key


def test_focus_of_the_rail_goes_with_the_page(qtbot, window):
    window.show_page("device")
    window.rail.button("device").setFocus()
    qtbot.keyClick(window, Qt.Key.Key_4, Qt.KeyboardModifier.ControlModifier)
    assert window.rail.button("optimize").hasFocus()
    window.header.setFocus()
    window.rail.button("optimize").clearFocus()
    qtbot.keyClick(window, Qt.Key.Key_5, Qt.KeyboardModifier.ControlModifier)
    assert not window.rail.button("compare").hasFocus()
