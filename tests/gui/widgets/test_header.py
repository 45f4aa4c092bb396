import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QPalette
from PySide6.QtWidgets import QLabel, QLineEdit, QToolButton, QVBoxLayout, QWidget

from edgeopt.data.demo import MODEL
from edgeopt_gui.actions.action import Action, Face
from edgeopt_gui.actions.book import ActionBook
from edgeopt_gui.application import _first_page
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.pages.base import Entry, Page
from edgeopt_gui.widgets.action_button import ActionButton
from edgeopt_gui.widgets.ask_text import AskText
from edgeopt_gui.widgets.command_line import CommandLine
from edgeopt_gui.widgets.doors import Doors
from edgeopt_gui.widgets.fold import Fold
from edgeopt_gui.widgets.heading import heading, quiet


def holding(button):
    """A page's content with one button in it."""
    content = QWidget()
    QVBoxLayout(content).addWidget(button)
    return content


class Bakery(Page):
    def __init__(self, context):
        super().__init__(context)
        self.show_empty("Nothing yet.", "bakery.bake")
        self.set_content(holding(ActionButton("bakery.eat")))

    def nothing(self):
        return None


def action(key, **more):
    return Action(f"bakery.{key}", f"{key.title()} it", "Bakery", Bakery.nothing, icon="check", **more)


ENTRY = Entry(
    "bakery",
    "Bakery",
    "device",
    Bakery,
    (action("bake", primary=True), action("eat"), action("sell"), action("wrap"), action("burn")),
)


@pytest.fixture
def window(open_window):
    return open_window((ENTRY,))


def shown(window):
    return [b.key for b in window.header.findChildren(ActionButton) if b.isVisible()]


def test_an_empty_page_has_its_button_in_its_middle_and_none_above(window, context):
    assert shown(window) == []
    window.page("bakery").show_content()
    context.changed.emit()
    assert len(shown(window)) == 3


def test_a_narrow_window_drops_secondary_buttons_first(window, context):
    window.page("bakery").show_content()
    context.changed.emit()
    window.header.resize(window.header.minimumSizeHint().width(), window.header.height())
    assert shown(window) == ["bakery.bake"]
    window.header.resize(900, window.header.height())
    assert len(shown(window)) == 3


def test_it_offers_the_first_actions_that_have_no_button_in_the_page(window, context):
    window.page("bakery").show_content()
    context.changed.emit()
    assert sorted(shown(window)) == ["bakery.bake", "bakery.sell", "bakery.wrap"]
    primary = next(b for b in window.header.findChildren(ActionButton) if b.key == "bakery.bake")
    assert primary.property("primary") is True


def test_a_button_that_comes_into_the_page_later_leaves_the_header(window, context):
    page = window.page("bakery")
    page.show_content()
    button = ActionButton("bakery.sell")
    page.set_content(holding(button))
    button.use(window.book)
    context.changed.emit()
    assert sorted(shown(window)) == ["bakery.bake", "bakery.eat", "bakery.wrap"]


def test_a_button_that_was_lent_to_an_action_and_is_gone_takes_none_away(window, context):
    page = window.page("bakery")
    lent = ActionButton()
    page.set_content(holding(lent))
    lent.use(window.book)
    page.show_content()
    lent.set_key("bakery.bake")
    context.changed.emit()
    assert "bakery.bake" not in shown(window)
    lent.hide()
    context.changed.emit()
    assert "bakery.bake" in shown(window)


def test_its_menu_has_all_of_them_and_the_command_line(window):
    titles = [a.text() for a in window.header.findChild(QToolButton, "more").menu().actions()]
    assert titles[:5] == ["Bake it", "Eat it", "Sell it", "Wrap it", "Burn it"]
    assert titles[-1] == "Copy command line"


def test_a_higher_heading_is_larger(qtbot):
    labels = [heading("x", level) for level in (1, 2, 3)]
    for label in labels:
        qtbot.addWidget(label)
    sizes = [label.font().pointSizeF() for label in labels]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 3


def test_quiet_text_takes_its_colour_from_the_palette(qtbot):
    label = quiet("why")
    qtbot.addWidget(label)
    assert label.foregroundRole() == QPalette.ColorRole.PlaceholderText


@pytest.fixture
def fold(qtbot):
    made = Fold("More", QLabel("inside"))
    qtbot.addWidget(made)
    made.show()
    qtbot.waitExposed(made)
    return made


def test_it_opens_by_keyboard(qtbot, fold):
    assert not fold.content.isVisible()
    with qtbot.waitSignal(fold.toggled):
        qtbot.keyClick(fold.head, Qt.Key.Key_Space)
    assert fold.content.isVisible()


def test_folded_it_says_what_is_set(fold):
    fold.say("memory at most 64 MiB")
    assert fold.summary.isVisible()
    assert fold.head.accessibleDescription() == "memory at most 64 MiB"
    fold.set_open(True)
    assert not fold.summary.isVisible()


def doors_on(window, key):
    window.show_page(key)
    return [each for each in window.page(key).findChildren(Doors) if each.isVisible()]


def test_the_first_start_shows_the_ways_to_begin_without_a_click(open_window):
    window = open_window()
    window.show_page(_first_page(None, "", ""))
    doors = [each for each in window.shown_page.findChildren(Doors) if each.isVisible()]
    assert len(doors) == 1
    assert [button.text() for button in doors[0].buttons] == [
        "Open a model…",
        "Optimize the built-in sample",
        "Open the built-in sample",
        "See what this machine can do",
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
    qtbot.keyClick(doors.buttons[-1], Qt.Key.Key_Space)
    assert window.shown_page is window.page("live")
    dialog = window.page("live").findChild(AskText)
    assert dialog.windowTitle() == "Connect to an agent"
    dialog.reject()


def test_the_sample_is_opened_from_there(qtbot, open_window):
    window = open_window()
    (doors,) = doors_on(window, "model")
    qtbot.mouseClick(doors.buttons[1], Qt.MouseButton.LeftButton)
    assert window.context.subject.path == MODEL


def test_it_shows_what_to_type_and_copies_it(qtbot):
    line = CommandLine()
    qtbot.addWidget(line)
    assert not line.isVisible()
    line.set(Command("Reading", ("analyze", "my model.onnx")))
    line.show()
    assert line.text() == "edgeopt analyze 'my model.onnx'"
    qtbot.keyClick(line.findChild(QToolButton), Qt.Key.Key_Space)
    assert QGuiApplication.clipboard().text() == line.text()
    line.set(None)
    assert not line.isVisible()


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
