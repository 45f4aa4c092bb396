"""The whole table of actions: those of the window and of every page."""

from collections import Counter

import pytest
from PySide6.QtCore import QObject

from edgeopt_gui.actions.action import Action, Face
from edgeopt_gui.actions.book import ActionBook
from edgeopt_gui.actions.matching import best, score
from edgeopt_gui.actions.shell import of_the_window
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.pages import PAGES
from edgeopt_gui.pages.optimize.page import ENTRY as OPTIMIZE
from edgeopt_gui.theme.icons import FOLDER

ACTIONS = (*of_the_window(PAGES), *(action for entry in PAGES for action in entry.actions))


def test_no_two_actions_share_a_key_or_a_shortcut():
    for values in ([a.key for a in ACTIONS], [a.shortcut.lower() for a in ACTIONS if a.shortcut]):
        assert [value for value, count in Counter(values).items() if count > 1] == []


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.key)
def test_an_action_says_what_it_does(action):
    assert action.title[0].isupper()
    assert not action.title.endswith(".")
    assert action.menu
    assert not action.icon or (FOLDER / f"{action.icon}.svg").is_file()


@pytest.mark.parametrize("entry", PAGES, ids=lambda entry: entry.key)
def test_a_page_has_an_icon_and_one_primary_action_at_most(entry):
    assert (FOLDER / f"{entry.icon}.svg").is_file()
    assert sum(action.primary for action in entry.actions) <= 1
    assert all(action.key.startswith(f"{entry.key}.") for action in entry.actions)


class Owner(QObject):
    def __init__(self):
        super().__init__()
        self.done = 0
        self.reason = ""

    def do(self):
        self.done += 1

    def why_not(self):
        return self.reason

    def command(self):
        return Command("Probing", ("probe",))


DO = Action("page.do", "Do it", "Page", Owner.do, Owner.why_not, "Ctrl+1", command=Owner.command)


@pytest.fixture
def owner(qapp):
    return Owner()


@pytest.fixture
def book(owner):
    book = ActionBook()
    book.add([DO], owner)
    return book


def test_triggering_does_it_with_its_owner(book, owner):
    book["page.do"].shown.trigger()
    assert owner.done == 1
    assert book["page.do"].command().line == "edgeopt probe"


def test_what_cannot_be_done_says_why_in_its_tip(book, owner):
    owner.reason = "Open a model first."
    book.refresh()
    shown = book["page.do"].shown
    assert not shown.isEnabled()
    assert "Open a model first." in shown.toolTip()
    owner.reason = ""
    book.refresh()
    assert shown.isEnabled()
    assert "Open a model first." not in shown.toolTip()
    assert "Ctrl+1" in shown.toolTip()


def test_a_change_that_nobody_told_yet_is_still_heeded(book, owner):
    owner.reason = "A search is running."
    book["page.do"].shown.trigger()
    assert owner.done == 0
    assert not book["page.do"].shown.isEnabled()


def test_two_actions_cannot_share_a_key(book, owner):
    with pytest.raises(ValueError, match=r"page\.do"):
        book.add([DO], owner)


def test_an_action_that_would_do_something_else_now_looks_so(qapp):
    class Player(QObject):
        on = False

        def toggle(self):
            self.on = not self.on

        def face(self):
            return Face("Stop", "stop") if self.on else None

    book, player, told = ActionBook(), Player(), []
    book.add([Action("page.play", "Play", "Page", Player.toggle, icon="play", face=Player.face)], player)
    book.refaced.connect(told.append)
    bound = book["page.play"]
    assert (bound.title, bound.icon, bound.shown.text()) == ("Play", "play", "Play")
    bound.shown.trigger()
    assert (bound.title, bound.icon, bound.shown.text()) == ("Stop", "stop", "Stop")
    assert bound.shown.toolTip() == bound.shown.statusTip() == "Stop"
    assert told == [bound]
    bound.shown.trigger()
    assert bound.shown.text() == "Play"


TITLES = (
    "Open a model…",
    "Open a bundle…",
    "Start the search",
    "Search the nodes",
    "Save the bundle as…",
    "Settings…",
    "Cancel the search",
    "Reset the layout of the window",
)


def found(typed):
    return best(typed, TITLES, lambda title: title)


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("open m", "Open a model…"),
        ("ob", "Open a bundle…"),
        ("sts", "Start the search"),
        ("search", "Search the nodes"),
        ("canc", "Cancel the search"),
        ("SETT", "Settings…"),
        ("layout", "Reset the layout of the window"),
    ],
)
def test_the_best_fit_stands_first(typed, first):
    assert found(typed)[0] == first


def test_nothing_typed_keeps_the_order_and_nonsense_finds_nothing():
    assert found("") == list(TITLES)
    assert found("qqq") == []


def test_letters_must_come_in_their_order():
    assert score("abc", "a b c") is not None
    assert score("cba", "a b c") is None


def test_a_head_of_a_word_is_not_waited_for_in_vain():
    """The d in "bundle" would do, and the word that begins with one has no l after it."""
    assert score("bdl", "bundle done") is not None


def entries(menu):
    return [action.text() for action in menu.actions() if not action.isSeparator()]


def test_every_action_is_in_a_menu_and_so_within_reach_of_the_keyboard(open_window):
    window = open_window()
    menus = {top.text().replace("&", ""): top.menu() for top in window.menuBar().actions()}
    assert list(menus)[:2] == ["File", "View"]
    assert list(menus)[-1] == "Help"
    for bound in window.book:
        assert bound.shown in menus[bound.action.menu].actions(), bound.action.key
    for entry in PAGES:
        assert entry.actions == () or entry.title in menus


def test_recent_files_are_in_the_file_menu_and_open_again(open_window, context, tmp_path):
    window = open_window()
    model = tmp_path / "a&b.onnx"
    model.write_bytes(b"not a model")
    file_menu = window.menuBar().actions()[0].menu()
    recent = next(action.menu() for action in file_menu.actions() if action.text() == "Recent files")
    assert not recent.isEnabled()
    window.open_paths([model])
    assert entries(recent) == ["a&&b.onnx", "Forget these files"]
    context.open(None)
    recent.actions()[0].trigger()
    assert context.subject.path == model
    recent.actions()[-1].trigger()
    assert not recent.isEnabled()


def test_the_menu_of_a_search_is_in_groups(open_window):
    window = open_window((OPTIMIZE,))
    menus = [next(t.menu() for t in window.menuBar().actions() if t.text() == "&Optimize")]
    window.show_page("optimize")
    menus.append(window.header._menu)
    for menu in menus:
        groups, actions = [[]], menu.actions()
        for action in actions:
            groups.append([]) if action.isSeparator() else groups[-1].append(action.objectName())
        assert groups[0][0] == "optimize.start"
        of_data = next(group for group in groups if "optimize.choose-data" in group)
        assert of_data[-1] == "optimize.clear-data"
        assert {"optimize.choose-folder", "optimize.use-beside"} < set(of_data)
        assert max(map(len, groups)) <= 6
        assert all(groups)
