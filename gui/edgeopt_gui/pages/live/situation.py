"""The situation of the page Live: reasons why actions are not possible now, and the state to show."""

from dataclasses import dataclass
from typing import Literal

from edgeopt_gui.jobs.command import Command
from edgeopt_gui.pages.live.agent import AgentRecord, why_no_change

_NO_SAMPLES = "There are no samples yet: start watching first."
State = Literal["empty", "busy", "error", "content"]


@dataclass(frozen=True, slots=True)
class Situation:
    """The facts that decide which actions are possible."""

    start: Command | None = None
    """Command that would start the watch; None if there is nothing to watch."""
    watched: Command | None = None
    """Command of the running watch; None if there is none."""
    stopping: bool = False
    url: str = ""
    """Address of the watched agent; "" for this machine."""
    agent: AgentRecord | None = None
    connected: bool = False
    changing: bool = False
    """Whether a deployment or rollback was requested."""
    has_bundle: bool = False
    sampled: bool = False
    """Whether the running watch has sent a sample."""
    moments: int = 0
    """The number of samples to draw."""
    follows: bool = False
    has_budget: bool = False
    """Whether a latency budget is set for the watched subject."""
    writing: bool = False
    failed: bool = False
    """Whether the last watch failed before its first sample."""
    measuring: str = ""
    """Title of the job that measures on this device and must not be disturbed; "" if none does."""


def why_not_start(now: Situation) -> str:
    if now.stopping:
        return "The previous watch is stopping."
    if now.start is None:
        return "Open a model or a bundle first, or connect to an agent."
    if now.measuring:
        return f"Watching would disturb a measurement: {now.measuring}."
    if now.watched is not None:
        return "A watch is running; stop it first."
    return ""


def why_not_stop(now: Situation) -> str:
    return "" if now.watched is not None and not now.stopping else "Nothing is being watched."


def why_not_pause(now: Situation) -> str:
    """Returns why drawing cannot be paused; a stopped watch is always drawn to its end."""
    return why_not_stop(now) or why_not_draw(now)


def why_not_draw(now: Situation) -> str:
    """Returns why actions that need samples are not possible; "" if they are."""
    return "" if now.moments else _NO_SAMPLES


def why_not_follow(now: Situation) -> str:
    follows = now.follows and now.moments
    return "The charts already follow the newest sample." if follows else why_not_draw(now)


def why_not_remove_budget(now: Situation) -> str:
    return "" if now.has_budget else "No latency budget is set."


def why_not_write(now: Situation) -> str:
    return "Another file is being written." if now.writing else why_not_draw(now)


_NOTHING_BEFORE = "The agent has no release to roll back to."


def why_not_leave(now: Situation) -> str:
    return "" if now.url else "No agent is connected."


def why_not_deploy(now: Situation) -> str:
    if not now.has_bundle:
        return "There is no bundle yet: optimize a model, or open a bundle."
    return _why_no_change(now)


def why_not_roll_back(now: Situation) -> str:
    agent, refused = now.agent, _why_no_change(now)
    if not refused and agent is not None and not agent.can_go_back:
        unknown = agent.status is None
        return "The agent has not said yet what it serves." if unknown else _NOTHING_BEFORE
    return refused


def shown(now: Situation) -> State:
    """Returns the state that the page shows."""
    if now.failed and now.watched is None:
        return "error"
    if now.moments:
        return "content"
    if now.watched is None:
        return "empty"
    return "content" if now.sampled or now.connected else "busy"


def _why_no_change(now: Situation) -> str:
    return why_no_change(now.agent, connected=bool(now.url) and now.connected, changing=now.changing)
