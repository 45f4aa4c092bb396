"""Another theme on a window: visible parts change at once, and hidden pages by the time they are shown."""

import pytest
from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QDialog, QLabel, QPushButton, QVBoxLayout

from edgeopt_gui import theme
from edgeopt_gui.pages import PAGES
from edgeopt_gui.pages.base import Entry, Page
from edgeopt_gui.pages.device.page import DevicePage

KEYS = [entry.key for entry in PAGES]


class Restyled(QObject):
    """Counts how often the widgets it watches are styled."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def eventFilter(self, _watched, event):  # noqa: N802 - Qt's name
        self.count += event.type() == QEvent.Type.StyleChange
        return False


class Plain(Page):
    def __init__(self, context):
        super().__init__(context)
        self.show_empty("Nothing yet.")


def plain(*keys):
    return tuple(Entry(key, key.title(), "device", Plain, ()) for key in keys)


def dressed(widget):
    return widget.styleSheet() == theme.sheet()


def pictures(window, qtbot):
    """The picture of rail, header and page, with each page in turn."""
    taken = {}
    for key in KEYS:
        window.show_page(key)
        window.setFocus()
        if key == "live":
            qtbot.waitUntil(lambda: window.page("live").view is not None)
        qtbot.waitUntil(lambda: not window.context.jobs.jobs)
        QApplication.processEvents()
        taken[key] = window.centralWidget().grab().toImage()
    return taken


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_page_looks_as_in_a_window_that_began_in_that_theme(open_window, context, qtbot, monkeypatch, scheme):
    monkeypatch.setattr(DevicePage, "probe", lambda _: None)  # readings of the device change by themselves
    other = {"light": "dark", "dark": "light"}[scheme]
    context.settings.keep("theme", other)
    changed = open_window()
    before = pictures(changed, qtbot)
    changed.show_page(KEYS[0])
    context.settings.keep("theme", scheme)
    after = pictures(changed, qtbot)
    changed.close()
    begun = pictures(open_window(), qtbot)
    assert [key for key in KEYS if after[key] == before[key]] == []
    assert [key for key in KEYS if after[key] != begun[key]] == []


def test_hidden_pages_are_styled_after_the_visible_parts(open_window, context, qtbot):
    context.settings.keep("theme", "light")
    window = open_window(plain("first", "second", "third"))
    watch = Restyled()
    hidden = [window.page("second"), window.page("third")]
    for page in hidden:
        page.installEventFilter(watch)
    context.settings.keep("theme", "dark")
    assert watch.count == 0
    assert dressed(window.page("first"))
    assert dressed(window.header)
    assert dressed(window.rail)
    window.show_page("third")
    assert dressed(hidden[1])
    assert watch.count == 1
    qtbot.waitUntil(lambda: dressed(hidden[0]))
    assert watch.count == 2


def test_a_dialog_of_the_window_has_its_stylesheet_when_it_is_shown(open_window, context, qtbot):
    context.settings.keep("theme", "light")
    window = open_window(plain("first"))
    dialog = QDialog(window)
    button = QPushButton("x")
    QVBoxLayout(dialog).addWidget(button)
    dialog.open()
    light = button.grab().toImage()
    assert dressed(dialog)
    context.settings.keep("theme", "dark")
    assert dressed(dialog)
    assert button.grab().toImage() != light
    dialog.deleteLater()
    QApplication.sendPostedEvents(dialog, QEvent.Type.DeferredDelete)
    context.settings.keep("theme", "light")  # without the dialog that is gone


def test_a_dialog_that_is_open_on_a_hidden_page_changes_with_the_theme(open_window, context):
    context.settings.keep("theme", "light")
    window = open_window(plain("first", "second"))
    window.show_page("second")
    dialog = QDialog(window.page("second"))
    dialog.setModal(False)
    QVBoxLayout(dialog).addWidget(QLabel("x"))
    dialog.show()
    window.show_page("first")
    assert dialog.isVisible()
    context.settings.keep("theme", "dark")
    assert dressed(window.page("second"))
