"""Seeded random clicks and keys on every page: nothing breaks, and no button is dead."""

import random

import pytest
from PySide6.QtCore import QMetaMethod, QPoint, Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QDialog, QPushButton, QToolButton, QWidget

from edgeopt_gui.pages import PAGES
from edgeopt_gui.widgets.action_button import ActionButton

STEPS, SWEPT = 30, 200
SEED = 20_261_120
KEYS = (
    Qt.Key.Key_Tab,
    Qt.Key.Key_Backtab,
    Qt.Key.Key_Space,
    Qt.Key.Key_Return,
    Qt.Key.Key_Escape,
    Qt.Key.Key_Up,
    Qt.Key.Key_Down,
    Qt.Key.Key_Left,
    Qt.Key.Key_Right,
    Qt.Key.Key_Home,
    Qt.Key.Key_End,
    Qt.Key.Key_PageDown,
    Qt.Key.Key_A,
    Qt.Key.Key_5,
    Qt.Key.Key_Delete,
)


@pytest.fixture
def closer(qapp):
    """Closes whatever stands before the window, as a user would who changed their mind."""

    def close():
        popup = QApplication.activePopupWidget()
        modal = QApplication.activeModalWidget()
        if popup is not None:
            popup.close()
        elif isinstance(modal, QDialog):
            modal.reject()

    timer = QTimer(interval=25)
    timer.timeout.connect(close)
    timer.start()
    yield timer
    timer.stop()


def targets(root):
    """What a user could click on."""
    return [
        widget
        for widget in root.findChildren(QWidget)
        if widget.isVisible()
        and widget.isEnabled()
        and not widget.isWindow()
        and not widget.visibleRegion().isEmpty()
    ]


def random_place(dice, widget):
    return QPoint(dice.randrange(max(1, widget.width())), dice.randrange(max(1, widget.height())))


def step(dice, window):
    page = window.shown_page
    kind = dice.random()
    if kind < 0.5:
        widget = dice.choice(targets(page) or [page])
        QTest.mouseClick(widget, Qt.MouseButton.LeftButton, pos=random_place(dice, widget))
    elif kind < 0.6:
        widget = dice.choice(targets(window.header))
        QTest.mouseClick(widget, Qt.MouseButton.LeftButton)
    elif kind < 0.65:
        widget = dice.choice(targets(page) or [page])
        QTest.mouseDClick(widget, Qt.MouseButton.LeftButton, pos=random_place(dice, widget))
    elif kind < 0.95:
        QTest.keyClick(QApplication.focusWidget() or page, dice.choice(KEYS))
    else:
        bound = dice.choice([bound for bound in window.book if bound.action.key not in {"app.quit", "app.close"}])
        bound.shown.trigger()


@pytest.mark.slow
@pytest.mark.parametrize("steps", [STEPS, pytest.param(SWEPT, marks=pytest.mark.slow)])
@pytest.mark.parametrize("key", [entry.key for entry in PAGES])
def test_random_clicks_and_keys_break_nothing(qtbot, open_window, context, closer, key, steps):
    dice = random.Random(SEED + len(key))  # noqa: S311 - not for secrets: the same clicks in every run
    window = open_window()
    window.open_sample()
    window.show_page(key)
    for _ in range(steps):
        step(dice, window)
        QApplication.processEvents()
        if window.shown_page is not window.page(key) and dice.random() < 0.3:
            window.show_page(key)
    qtbot.waitUntil(lambda: QApplication.activePopupWidget() is None and QApplication.activeModalWidget() is None)
    window.cancel_jobs()
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=60_000)
    assert window.isVisible()
    window.show_page("device")
    window.show_page(key)
    assert window.shown_page is window.page(key)
    assert not window._failure.isVisible()


def test_no_button_is_dead(qtbot, open_window):
    window = open_window()
    window.open_sample()
    dead = []
    for entry in PAGES:
        window.show_page(entry.key)
        dead += [f"{entry.key}: {button}" for button in dead_buttons(window)]
    assert dead == []


def dead_buttons(window):
    dead = []
    for button in window.findChildren(QAbstractButton):
        if not isinstance(button, QPushButton | QToolButton) or button.objectName().startswith("qt_"):
            continue
        if isinstance(button, ActionButton):
            works = not button.key or button.key in {bound.action.key for bound in window.book}
        else:
            signals = [QMetaMethod.fromSignal(signal) for signal in (button.clicked, button.toggled)]
            grouped = button.group() is not None
            menu = isinstance(button, QToolButton | QPushButton) and button.menu() is not None
            works = grouped or menu or any(button.isSignalConnected(signal) for signal in signals)
        if not works:
            dead.append(f"{type(button).__name__} {button.text()!r} {button.accessibleName()!r}")
    return dead
