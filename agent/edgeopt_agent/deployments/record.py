"""A deployment as the journal and the agent's answers have it."""

from typing import Literal

import msgspec

from edgeopt_agent.deployments.states import FINAL, State

Kind = Literal["deploy", "rollback", "remove", "several"]
Detail = dict[str, str | float | int | bool]


class Moment(msgspec.Struct, frozen=True):
    """The time at which a deployment entered a state, and the reason."""

    state: State
    time_s: float
    reason: str = ""


class Soaked(msgspec.Struct, frozen=True):
    """Progress of a soak, from which it continues after a clean stop of the agent."""

    elapsed_s: float = 0.0
    requests: int = 0
    errors: int = 0


class Source(msgspec.Struct, frozen=True):
    """The source of a bundle that the agent fetches by itself."""

    url: str
    digest: str
    """Digest of the bundle as one file: `sha256:` and 64 digits."""


class Member(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model of an order of several."""

    model: str
    kind: Kind = "deploy"
    source: Source | None = None
    release: str = ""
    """rollback: the one that it returns to."""
    slot: str = ""
    """The added model that it is; empty for the agent's first one."""
    deployment: int = 0
    """The number is 0 before it begins, and where nothing is to be done."""
    done: bool = False
    """Whether nothing was to be done from the beginning."""
    state: str = ""
    """The end of its deployment, where the order was not committed."""
    reason: str = ""

    @property
    def request(self) -> tuple[str, Kind, Source | None, str]:
        return self.model, self.kind, self.source, self.release


class Record(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    kind: Kind = "deploy"
    state: State = State.ACCEPTED
    release: str = ""
    name: str = ""
    summary: str = ""
    reason: str = ""
    ordered_by: str = ""
    """Who asked for it, in words for the log; empty where the agent decided by itself."""
    fault: bool = False
    """Whether the bundle itself failed, so that it is refused until someone forces it."""
    old: str | None = None
    """The release that served before, to which a failure leads back."""
    old_previous: str | None = None
    force: bool = False
    rename: bool = False
    """Whether its model may be called otherwise than the one that serves."""
    source: Source | None = None
    """Source of the bundle; None for a bundle that is sent."""
    allow_downgrade: bool = False
    """Whether its sequence number may be lower than the highest that served."""
    sequence: int = 0
    """The number in its verified signature; 0 without one."""
    soak_s: float = 0.0
    soak_requests: int = 0
    serves: str | None = None
    """Release that serves although the links name another, "" for none; None if the links are right."""
    going_back: str = ""
    """Reason of a rollback requested while the release served; a start of the agent carries it out too."""
    resumes: int = 0
    """Number of agent starts that have continued the present state."""
    paused: bool = False
    """Whether the agent was stopped cleanly in the present state, which counts as no failure."""
    soaked: Soaked = Soaked()
    detail: Detail = {}
    """Measured figures by name."""
    history: tuple[Moment, ...] = ()
    order: int = 0
    """The order of several models that it is part of."""
    expected: str = ""
    """The name that the bundle's model must have, by that order."""
    members: tuple[Member, ...] = ()
    """The models of an order of several."""
    interrupted: bool = False
    """Whether the agent stopped before anything switched; what asked for it may then ask again."""
    returns: int = 0
    """The order that this one takes back."""

    @property
    def final(self) -> bool:
        return self.state in FINAL
