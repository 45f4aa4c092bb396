"""The page's table of actions."""

from edgeopt_gui.pages.optimize.page import ENTRY


def test_the_actions_have_shortcuts_of_their_own():
    shortcuts = [action.shortcut for action in ENTRY.actions if action.shortcut]
    assert len(shortcuts) == len(set(shortcuts))
    assert {"Ctrl+Return", "Ctrl+D", "Ctrl+S", "Ctrl+E"} <= set(shortcuts)
    assert [action.key for action in ENTRY.actions if action.primary] == ["optimize.start"]
