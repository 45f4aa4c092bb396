"""The record that describes an action of the user."""

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
    """A title and icon that replace the action's own in some states, for example to continue a stopped job."""

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
    """The title, beginning with a verb: `Start the search`."""
    menu: str
    run: Callable[[Any], None]
    why_not: Callable[[Any], str] = _always
    """The reason why the action is not possible now, as a sentence; "" if it is possible."""
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
