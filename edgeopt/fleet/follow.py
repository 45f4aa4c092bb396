"""Follows one deployment on an agent to its end, through restarts of the agent too."""

import shlex
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from edgeopt.errors import MissingError, VerificationError
from edgeopt.events import Emit, Log, Progress
from edgeopt.fleet.http import UNREACHABLE
from edgeopt.fleet.records import COMMITTED, FINAL, Deployment, Journal, Status

_LONG_POLL_S = 2.0
_PATIENCE_S = 15.0
_PAUSE_S = 0.2
_TIDY_S = 10.0
_LOOK_AGAIN_S = 0.02
Answer = TypeVar("Answer")


class Source(Protocol):
    """What following needs of an agent."""

    @property
    def url(self) -> str: ...
    def status(self) -> Status: ...
    def deployment(self, number: int) -> Deployment: ...
    def events(self, after: int = 0, wait_s: float = 0.0) -> Journal: ...


def follow(agent: Source, deployment: Deployment, emit: Emit) -> Deployment:
    """Tells every state as it comes; raises VerificationError unless the deployment ends as committed."""
    number, told, after = deployment.id, 0, 0
    while True:
        deployment = _patiently(partial(agent.deployment, number), agent, deployment, emit)
        for moment in deployment.history[told:]:
            emit(_progress(deployment, moment.state, moment.reason, moment.time_s))
        told = max(told, len(deployment.history))
        if deployment.state in FINAL:
            _patiently(partial(_await_idle, agent), agent, deployment, emit)
            return _ended(deployment)
        _tell_soak(deployment, emit)
        # The journal wakes this up; what it says is in the record too.
        after = _patiently(partial(agent.events, after, _LONG_POLL_S), agent, deployment, emit).next


def subject(deployment: Deployment) -> str:
    """What events about a deployment call it."""
    return f"deployment {deployment.id}"


def _await_idle(agent: Source) -> None:
    """The agent tidies up after a deployment has ended, and takes no other one before that is done."""
    deadline = time.monotonic() + _TIDY_S
    while time.monotonic() < deadline:
        status = agent.status()
        if status.state != "deploying" or status.deployment is None or status.deployment.state not in FINAL:
            return
        time.sleep(_LOOK_AGAIN_S)


def _progress(deployment: Deployment, state: str, reason: str, time_s: float) -> Progress:
    message = ": ".join(part for part in (deployment.name or deployment.release or "", reason) if part)
    return Progress(state.lower(), message, subject=subject(deployment), time_s=time_s)


def _tell_soak(deployment: Deployment, emit: Emit) -> None:
    """A soak is long, so the remaining time is shown."""
    figures = deployment.progress or {}
    soak_s, elapsed_s = figures.get("soak_s"), figures.get("elapsed_s")
    if deployment.state != "SOAKING" or not isinstance(soak_s, float | int):
        return
    left_s = soak_s - elapsed_s if isinstance(elapsed_s, float | int) else soak_s
    message = f"{figures.get('requests')} requests of at least {figures.get('soak_requests')} served"
    emit(Progress("soaking", message, subject=subject(deployment), time_left_s=max(0.0, round(left_s, 1))))


def _ended(deployment: Deployment) -> Deployment:
    if deployment.state == COMMITTED:
        return deployment
    what = f"Deployment {deployment.id}" + (f" of '{deployment.name}'" if deployment.name else "")
    listed = "edgeopt fleet releases" + (f" --model {shlex.quote(deployment.model)}" if deployment.model else "")
    ended, hint = {
        "FAILED": (
            "failed",
            f"The previous release still serves. `{listed}` lists refused releases with the reason.",
        ),
        "ROLLED_BACK": (
            "was rolled back",
            f"The previous release serves again. `{listed}` lists refused releases with the reason.",
        ),
        "DEGRADED": (
            "could not be rolled back",
            "The agent is reachable but may not serve: deploy a bundle that worked before.",
        ),
    }[deployment.state]
    error = VerificationError(f"{what} {ended}: {deployment.reason or 'the agent gave no reason'}", hint)
    refused = deployment.detail.get("refused")
    if isinstance(refused, str):
        error.code = refused
    raise error


def _patiently(call: Callable[[], Answer], agent: Source, deployment: Deployment, emit: Emit) -> Answer:
    """An agent that restarts goes on with its deployment, so it is given a while to come back."""
    try:
        return call()
    except MissingError as error:
        if error.code != UNREACHABLE:
            raise
        state = deployment.state.lower().replace("_", " ")
        said = f"The agent went away while deployment {deployment.id} was {state}; waiting for it."
        emit(Log("warning", said, kind="agent-away"))
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
        try:
            answer = call()
        except MissingError as error:
            if error.code != UNREACHABLE:
                raise
            continue
        emit(Log("info", "The agent is back.", kind="agent-back"))
        return answer
    raise MissingError(
        f"The agent at {agent.url} went away while deployment {deployment.id} was {state}, and has not come back.",
        "It finishes or rolls back the deployment when it runs again: edgeopt fleet status",
    )
