"""Reasons why actions of the page Fleet are not possible now, as sentences."""

from dataclasses import dataclass

from edgeopt.fleet.rollout_commands import RolloutReport
from edgeopt.fleet.rollout_documents import Action
from edgeopt.fleet.rollout_driver import allowed_phases
from edgeopt_gui.pages.fleet.link import LinkState


@dataclass(frozen=True, slots=True)
class FleetSituation:
    link: LinkState
    devices: int
    rollout: RolloutReport | None
    """Report of the rollout that is shown; None if there is none."""
    own: bool
    """Whether this app runs the rollout."""
    busy: bool
    """Whether a request for the rollout is in progress."""


def why_not_connected(now: FleetSituation) -> str:
    if now.link == "off":
        return "Connect to a fleet first."
    return "The broker is away; wait until it is back." if now.link == "away" else ""


def why_not_disconnect(now: FleetSituation) -> str:
    return "Not connected." if now.link == "off" else ""


def why_not_start(now: FleetSituation) -> str:
    if reason := why_not_connected(now):
        return reason
    return "" if now.devices else "No device has reported to the broker yet."


def why_not_control(now: FleetSituation, action: Action) -> str:
    if reason := why_not_connected(now):
        return reason
    if now.rollout is None:
        return "There is no rollout."
    if now.busy:
        return "Something was asked of the rollout already; wait for the answer."
    if action == "resume" and now.own:
        return "This app runs the rollout."
    if now.rollout.phase not in allowed_phases(action):
        return f"The rollout is {now.rollout.phase.replace('-', ' ')}."
    return ""
