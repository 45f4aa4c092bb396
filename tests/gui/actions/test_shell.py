"""The whole table of actions: those of the window and of every page."""

from collections import Counter

import pytest

from edgeopt_gui.actions.shell import of_the_window
from edgeopt_gui.pages import PAGES
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
