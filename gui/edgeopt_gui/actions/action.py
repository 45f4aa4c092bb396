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
    """Name of the icon; "" for the action's own."""


def _usual(_: object) -> Face | None:
    return None


@dataclass(frozen=True, slots=True)
class Action:
    """An action; its functions take its owner, a page or the window: give them as `OptimizePage.start`."""

    key: str
    """Unique key: the page (or `app`), then the action, as in `optimize.start`."""
    title: str
    """The title, beginning with a verb: `Start the search`."""
    menu: str
    run: Callable[[Any], None]
    why_not: Callable[[Any], str] = _always
    """The reason why the action is not possible now, as a sentence; "" if it is possible."""
    shortcut: str = ""
    icon: str = ""
    """Name of a file in `theme/icons`, without `.svg`."""
    command: Callable[[Any], Command | None] = _no_command
    """Function that returns the equivalent command line; None if there is none."""
    primary: bool = False
    """Whether the action is the one prominent button of its page."""
    begins_group: bool = False
    """Whether menus draw a separator above the action."""
    also: str = ""
    """Other words by which the command palette finds the action."""
    face: Callable[[Any], Face | None] = _usual
    """Function that returns a title and icon for the present state; None for the usual ones."""
