"""Every state of a deployment and every way out of it, in one table."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    ACCEPTED = "ACCEPTED"
    RECEIVING = "RECEIVING"
    FETCHING = "FETCHING"
    VERIFYING = "VERIFYING"
    STAGED = "STAGED"
    PROBING = "PROBING"
    READY = "READY"
    SWITCHING = "SWITCHING"
    SOAKING = "SOAKING"
    COMMITTED = "COMMITTED"
    FAILED = "FAILED"
    ROLLING_BACK = "ROLLING_BACK"
    ROLLED_BACK = "ROLLED_BACK"
    DEGRADED = "DEGRADED"


class Event(StrEnum):
    DONE = "done"
    FAILURE = "failure"
    """The step failed, its time was up, or someone asked to stop it."""
    UNLINKED = "unlinked"
    """The release serves, but the links of the data folder could not be changed to it."""
    TOGETHER = "together"
    """The release is one of several models, and has proved itself."""
    KNOWN = "known"
    """The release already serves, and nothing is left to do."""


@dataclass(frozen=True, slots=True)
class Row:
    state: State
    exits: Mapping[Event, State]
    limit: str = ""
    """The setting that bounds the time spent here."""
    resumes: int = 0
    """Most starts of the agent that may go on in this state; one more counts as a failure."""
    undo: str = ""
    """Effect of a failure in this state, in words."""


def _to(done: State, failure: State, **others: State) -> dict[Event, State]:
    return {Event.DONE: done, Event.FAILURE: failure, **{Event(name): state for name, state in others.items()}}


S = State
NOTHING = "nothing was changed yet"
DISCARD = "the new release is discarded; the old one never stopped serving"
BACK = "the old release serves again; the new one is discarded"

# A bundle that is sent takes all the steps down to COMMITTED; what is on the disk already (a rollback) enters at
# PROBING and, having been proved once, needs no soak. In an order of several models, each waits for the others in
# STAGED (without a bundle in ACCEPTED), READY and SOAKING; the order itself passes through ACCEPTED, SWITCHING and
# SOAKING.
TABLE: tuple[Row, ...] = (
    Row(S.ACCEPTED, _to(S.RECEIVING, S.FAILED, known=S.COMMITTED), "stage_timeout_s", undo=NOTHING),
    Row(S.RECEIVING, _to(S.VERIFYING, S.FAILED), "receive_timeout_s", undo=DISCARD),
    Row(S.FETCHING, _to(S.VERIFYING, S.FAILED), "fetch_timeout_s", resumes=20, undo=DISCARD),
    Row(S.VERIFYING, _to(S.STAGED, S.FAILED, known=S.COMMITTED), "verify_timeout_s", undo=DISCARD),
    Row(S.STAGED, _to(S.PROBING, S.FAILED), "stage_timeout_s", undo=DISCARD),
    Row(S.PROBING, _to(S.SWITCHING, S.FAILED, together=S.READY), "probe_timeout_s", undo=DISCARD),
    Row(S.READY, _to(S.SWITCHING, S.FAILED), "probe_timeout_s", undo=DISCARD),
    Row(
        *(S.SWITCHING, _to(S.SOAKING, S.ROLLING_BACK, unlinked=S.DEGRADED), "switch_timeout_s"),
        resumes=1,
        undo=BACK,
    ),
    Row(S.SOAKING, _to(S.COMMITTED, S.ROLLING_BACK), "soak_slack_s", resumes=1, undo=BACK),
    Row(S.ROLLING_BACK, _to(S.ROLLED_BACK, S.DEGRADED), "rollback_timeout_s", resumes=5, undo="none is possible"),
    Row(S.COMMITTED, {}),
    Row(S.FAILED, {}),
    Row(S.ROLLED_BACK, {}),
    Row(S.DEGRADED, {}),
)
ROWS: Mapping[State, Row] = {row.state: row for row in TABLE}
FINAL: frozenset[State] = frozenset(row.state for row in TABLE if not row.exits)
FIRST: Mapping[str, State] = {
    "deploy": S.RECEIVING,
    "fetch": S.FETCHING,
    "rollback": S.PROBING,
    "remove": S.PROBING,
    "several": S.SWITCHING,
}
"""State that follows ACCEPTED for each kind of deployment."""
