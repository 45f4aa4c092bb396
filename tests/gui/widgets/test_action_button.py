import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget

from edgeopt_gui.actions.action import Action, Face
from edgeopt_gui.actions.book import ActionBook
from edgeopt_gui.widgets.action_button import ActionButton


@pytest.fixture
def done():
    return []


@pytest.fixture
def book(qapp, done):
    book = ActionBook()
    book.add(
        [
            Action("page.do", "Do it", "Page", lambda _: done.append("do")),
            Action("page.not", "Never", "Page", lambda _: done.append("never"), lambda _: "Not today."),
        ],
        book,
    )
    return book


@pytest.fixture
def button(qtbot, book):
    button = ActionButton("page.do")
    qtbot.addWidget(button)
    button.use(book)
    button.show()
    return button


def test_it_does_the_action_by_mouse_and_by_keyboard(qtbot, button, done):
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    qtbot.keyClick(button, Qt.Key.Key_Space)
    assert done == ["do", "do"]
    assert button.text() == button.accessibleName() == "Do it"


def test_it_is_disabled_with_the_reason_where_the_action_is(button):
    button.set_key("page.not")
    assert not button.isEnabled()
    assert "Not today." in button.toolTip()


def test_without_an_action_it_is_not_seen(button):
    button.set_key("")
    assert not button.isVisible()


def test_it_is_called_as_the_action_is_called_now(qtbot, book, done):
    paused = []
    face = lambda _: Face("Resume") if paused else None  # noqa: E731 - as an action has it
    book.add([Action("page.pause", "Pause", "Page", lambda _: paused.append(1), face=face)], book)
    button = ActionButton("page.pause")
    qtbot.addWidget(button)
    button.use(book)
    assert button.text() == "Pause"
    button.click()
    assert button.text() == button.accessibleName() == "Resume"


@pytest.mark.parametrize("go", [lambda button: button.set_key("page.not"), lambda button: button.hide()])
def test_a_button_that_goes_does_not_hand_the_focus_to_a_text_field(qtbot, book, go):
    page, button, line = QWidget(), ActionButton("page.do"), QLineEdit()
    qtbot.addWidget(page)
    column = QVBoxLayout(page)
    for widget in (button, line):
        column.addWidget(widget)
    button.use(book)
    with qtbot.waitActive(page):
        page.show()
        page.activateWindow()
    button.setFocus()
    go(button)
    assert not line.hasFocus()
