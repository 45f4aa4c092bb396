"""The ways to begin, on every page that needs a model."""

from PySide6.QtCore import Qt

from edgeopt.data.demo import MODEL
from edgeopt_gui.application import _first_page
from edgeopt_gui.widgets.ask_text import AskText
from edgeopt_gui.widgets.doors import Doors


def doors_on(window, key):
    window.show_page(key)
    return [each for each in window.page(key).findChildren(Doors) if each.isVisible()]


def test_the_first_start_shows_three_doors_without_a_click(open_window):
    window = open_window()
    window.show_page(_first_page(None, "", ""))
    doors = [each for each in window.shown_page.findChildren(Doors) if each.isVisible()]
    assert len(doors) == 1
    assert [button.text() for button in doors[0].buttons] == [
        "Open a model…",
        "Open the built-in sample",
        "Watch a device…",
    ]
    assert all(button.isEnabled() for button in doors[0].buttons)


def test_later_starts_begin_with_the_page_of_the_last_time():
    assert _first_page(None, "", "live") == "live"
    assert _first_page(MODEL, "", "live") == "model"
    assert _first_page(MODEL, "optimize", "live") == "optimize"


def test_every_page_that_needs_a_model_has_them(qtbot, open_window):
    window = open_window()
    keys = ("model", "graph", "optimize", "compare", "live")
    for key in keys:
        qtbot.waitUntil(lambda key=key: bool(doors_on(window, key)))
        assert not window.page(key)._empty.button.isVisible()
    window.context.settings.remember(MODEL)
    for key in keys:
        assert doors_on(window, key)
        assert window.page(key)._empty.recent.isVisible()


def test_a_device_is_watched_from_there(qtbot, open_window):
    window = open_window()
    (doors,) = doors_on(window, "model")
    qtbot.keyClick(doors.buttons[2], Qt.Key.Key_Space)
    assert window.shown_page is window.page("live")
    dialog = window.page("live").findChild(AskText)
    assert dialog.windowTitle() == "Connect to an agent"
    dialog.reject()


def test_the_sample_is_opened_from_there(qtbot, open_window):
    window = open_window()
    (doors,) = doors_on(window, "model")
    qtbot.mouseClick(doors.buttons[1], Qt.MouseButton.LeftButton)
    assert window.context.subject.path == MODEL
