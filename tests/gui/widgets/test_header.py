import pytest
from PySide6.QtWidgets import QToolButton, QVBoxLayout, QWidget

from edgeopt_gui.actions.action import Action
from edgeopt_gui.pages.base import Entry, Page
from edgeopt_gui.widgets.action_button import ActionButton


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
