import pytest
from PySide6.QtCore import QObject

from edgeopt_gui.actions.action import Action, Face
from edgeopt_gui.actions.book import ActionBook
from edgeopt_gui.jobs.command import Command


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
