"""docs/gui.md says what the app does."""

import re
from pathlib import Path

from edgeopt_gui.actions.shell import of_the_window
from edgeopt_gui.pages import PAGES

TEXT = (Path(__file__).parents[2] / "docs" / "gui.md").read_text(encoding="utf-8")


def test_the_shortcuts_are_those_of_the_table_of_actions():
    actions = (*of_the_window(PAGES), *(action for entry in PAGES for action in entry.actions))
    expected = [(action.title, action.shortcut) for action in actions if action.shortcut]
    section = TEXT.partition("## Shortcuts")[2].partition("\n## ")[0]
    assert re.findall(r"^\| (.+) \| `(.+)` \|$", section, re.MULTILINE) == expected


def test_every_page_is_described():
    section = TEXT.partition("## The pages")[2].partition("\n## ")[0]
    assert re.findall(r"^\| \*\*(\w+)\*\*", section, re.MULTILINE) == [entry.title for entry in PAGES]
