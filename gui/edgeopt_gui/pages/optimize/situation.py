"""The situation of the page Optimize: reasons why actions are not possible now."""

from dataclasses import dataclass
from typing import Literal

from edgeopt_gui.pages.optimize.board import Row

Search = Literal["", "running", "stopping", "cancelling"]


@dataclass(frozen=True, slots=True)
class Situation:
    """The facts that decide which actions are possible."""

    opened: Literal["", "model", "bundle"] = ""
    problem: str = ""
    """Problem with the settings, as a sentence; "" if there is none."""
    plan_problem: str = ""
    """The reason why these settings do not allow a plan for another device; "" if they do."""
    search: Search = ""
    picking: bool = False
    """Whether the running job delivers another candidate instead of searching."""
    can_stop: bool = True
    """Whether the system can ask a process to end early."""
    found: bool = False
    """Whether the search that is shown has a bundle."""
    row: Row | None = None
    """The selected candidate; None if there is none."""
    has_data: bool = False
    beside: bool = False
    """Whether data beside the model is available but not chosen."""
    has_today: bool = False
    saving: bool = False
    handing: bool = False
    """Whether a report or an export is being made."""


def why_not_start(now: Situation) -> str:
    if now.search:
        return "A search is running; cancel it first."
    if not now.opened:
        return "Open a model first."
    if now.opened == "bundle":
        return "A bundle is optimized already: open the model that it was made from."
    return now.problem


def why_not_cancel(now: Situation) -> str:
    if not now.search:
        return "No search is running."
    return "The search is stopping already." if now.search == "cancelling" else ""


def why_not_stop(now: Situation) -> str:
    if why := why_not_cancel(now):
        return why
    if not now.can_stop:
        return "On this system a search can only be cancelled."
    if now.picking:
        return "No search is running: another candidate is being delivered."
    return "The best so far is being proved." if now.search == "stopping" else ""


def why_not_use(now: Situation) -> str:
    """Returns why actions that need the bundle are not possible; "" if they are."""
    return "" if now.found else "There is no bundle yet."


def why_not_save(now: Situation) -> str:
    return why_not_use(now) or ("The bundle is being saved." if now.saving else "")


def why_not_hand(now: Situation) -> str:
    busy = "A report or an export is being made; the status bar can cancel it."
    return why_not_use(now) or (busy if now.handing else "")


def why_not_measure_again(now: Situation) -> str:
    return "A search is running; cancel it first." if now.search else why_not_use(now)


def why_not_pick(now: Situation) -> str:
    if why := why_not_measure_again(now):
        return why
    if now.row is None:
        return "Choose a candidate in the table first."
    return "" if now.row.trade else f"It cannot be delivered instead: {now.row.outcome}."


def why_not_plan(now: Situation) -> str:
    return why_not_start(now) or now.plan_problem


def why_not_set(now: Situation) -> str:
    return "A search is running with these settings." if now.search else ""


def why_not_use_beside(now: Situation) -> str:
    return why_not_set(now) if now.beside else "There is no other .npz with the model's name in its folder."


def why_not_clear_data(now: Situation) -> str:
    return why_not_set(now) if now.has_data else "No data is chosen."


def why_not_clear_today(now: Situation) -> str:
    return why_not_set(now) if now.has_today else "Nothing is chosen that runs today."
