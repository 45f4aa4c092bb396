"""What the user can do, as a record."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from edgeopt_gui.jobs.command import Command


def _always(_: object) -> str:
    return ""


def _no_command(_: object) -> Command | None:
    return None


@dataclass(frozen=True, slots=True)
class Face:
    """How an action looks while it would do something else than usual: go on where it has stopped before."""

    title: str
    icon: str = ""
    """"" is the usual one."""


def _usual(_: object) -> Face | None:
    return None


@dataclass(frozen=True, slots=True)
class Action:
    """The functions take what owns the action: a page, or the window; give them as `OptimizePage.start`."""

    key: str
    """`optimize.start`: the page (or `app`), then what it does."""
    title: str
    """What it does, beginning with a verb: `Start the search`."""
    menu: str
    run: Callable[[Any], None]
    why_not: Callable[[Any], str] = _always
    """Why it cannot be done just now, as a sentence; "" when it can."""
    shortcut: str = ""
    icon: str = ""
    """The name of a file in `theme/icons`, without `.svg`."""
    command: Callable[[Any], Command | None] = _no_command
    """The command line that does the same, where there is one."""
    primary: bool = False
    """The one button of its page that stands out."""
    begins_group: bool = False
    """A line separates it from those above it in menus."""
    face: Callable[[Any], Face | None] = _usual
    """Another title and icon, where they depend on the state; None for those above."""
