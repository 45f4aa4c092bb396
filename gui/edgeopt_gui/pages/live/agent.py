"""The state of an agent on the page Live: its status, its models and the steps of its deployments."""

import re
import textwrap
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.events import Progress
from edgeopt.fleet.records import FINAL, ModelStatus, Previous, Status, deployment_title
from edgeopt_gui.agents.states import words

_TITLE = re.compile(r"(deployment|rollback) (\d+)")
_MAX_STEPS = 200
_REASON_LETTERS = 90
_BACK = ("rolling_back", "rolled_back")
# The other states pass within a second, and their markers would overlap.
_MARKED = ("soaking", "committed", "failed", "rolling_back", "rolled_back", "degraded")


@dataclass(frozen=True, slots=True)
class Step:
    """The entry of a deployment into a state."""

    deployment: int
    state: str
    time_s: float
    reason: str
    kind: str = "deploy"
    """`rollback` for a return to an older release, which a person asked for."""
    requested: bool = False
    """Whether a person asked to take the deployment back."""

    @property
    def title(self) -> str:
        return deployment_title(self.kind, self.deployment)

    @property
    def words(self) -> str:
        return f"{words(self.state)} on request" if self.requested else words(self.state)

    @property
    def listed(self) -> str:
        return f"{self.deployment}  {'' if self.kind == 'deploy' else f'{self.kind}, '}{self.words}"

    @property
    def marker(self) -> str:
        """The text of the step's marker in the charts; "" for states without a marker."""
        return f"{self.title} {self.words}" if self.state in _MARKED else ""

    @property
    def final(self) -> bool:
        return self.state.upper() in FINAL


class AgentRecord:
    def __init__(self, url: str, model: str = "", status: Status | None = None) -> None:
        """`model` is the one that is watched; empty for the agent's first one."""
        self.url = url
        self.model = model
        self.away = False
        self.status = status
        self.steps: list[Step] = []

    @property
    def trust(self) -> str:
        return "" if self.status is None else self.status.trust

    @property
    def models(self) -> tuple[tuple[str, str], ...]:
        """Key (as in `model`) and title of each model; empty for older agents, which do not report models."""
        names = [each.name for each in self.status.models] if self.status is not None else []
        return tuple(("" if k == 0 else name, name or "First model") for k, name in enumerate(names))

    @property
    def serves_something(self) -> bool:
        return self._shown is not None and self._shown.serving is not None

    @property
    def previous(self) -> Previous | None:
        return None if self._shown is None else self._shown.previous

    @property
    def can_go_back(self) -> bool:
        return self.previous is not None and not self.previous.reason

    @property
    def _shown(self) -> Status | ModelStatus | None:
        """The status of the watched model, or of the agent if no model is chosen; None if it is unknown."""
        if self.status is None or not self.model:
            return self.status
        return next((each for each in self.status.models if each.name == self.model), None)

    @property
    def busy(self) -> bool:
        """Whether a deployment is in progress."""
        return bool(self.steps) and not self.steps[-1].final

    def serves(self, *, watched: bool = True) -> str:
        """Returns a sentence about what the agent serves."""
        if not watched:
            return "Not watched."
        if self.away:
            return "The agent does not answer. Reconnecting…"
        shown = self._shown
        if shown is None:
            return "Asking the agent what it serves…"
        serving = shown.serving
        if serving is None:
            sentence = "Serves nothing yet: deploy a bundle."
        else:
            sentence = f"Serves {serving.name or serving.release} (release {serving.release})."
        return f"{sentence} {shown.reason}".strip()

    def latest(self) -> str:
        """Returns the state of the latest deployment, with the beginning of the reason; "" if there is none."""
        if not self.steps:
            return ""
        step = self.steps[-1]
        reason = f": {textwrap.shorten(step.reason, _REASON_LETTERS, placeholder='…')}" if step.reason else "."
        return f"{step.title.capitalize()} {step.words}{reason}"

    def reason(self) -> str:
        """Returns the full reason of the latest deployment's state."""
        return self.steps[-1].reason if self.steps else ""

    def take_status(self, data: dict[str, Any]) -> None:
        """Stores the result of `edgeopt fleet status`; one of an unknown version leaves the status unknown."""
        try:
            self.status = msgspec.convert(data, thread_safe(Status))
        except msgspec.ValidationError:
            self.status = None
        newest = self._shown.deployment if self._shown is not None else None
        if newest is not None and newest.requested:
            self.steps = [
                replace(step, requested=True) if step.deployment == newest.id and step.state in _BACK else step
                for step in self.steps
            ]

    def take_progress(self, event: Progress, time_s: float) -> Step | None:
        """Records the state of a deployment; returns the step, or None if the state is not new."""
        title = _TITLE.fullmatch(event.subject)
        if title is None:
            return None
        kind, number = "deploy" if title[1] == "deployment" else title[1], int(title[2])
        # An agent reports its present state again after each connection.
        latest = next((step for step in reversed(self.steps) if step.deployment == number), None)
        if latest is not None and latest.state == event.phase:
            return None
        step = Step(number, event.phase, time_s, event.message, kind)
        self.steps.append(step)
        del self.steps[:-_MAX_STEPS]
        return step


def why_no_change(agent: AgentRecord | None, *, connected: bool, changing: bool) -> str:
    """Returns why a deployment or rollback is not possible now; `changing` is whether one was requested."""
    if not connected:
        return "Connect to an agent first."
    if agent is not None and agent.away:
        return "The agent does not answer; wait until it is back."
    if changing or (agent is not None and agent.busy):
        return "A deployment is in progress."
    return ""
