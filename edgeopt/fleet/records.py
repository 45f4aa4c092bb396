"""Answers of an agent; readers ignore unknown keys: agents of other versions must stay reachable."""

from typing import Literal

import msgspec

COMMITTED = "COMMITTED"
ROLLED_BACK = "ROLLED_BACK"
FINAL = (COMMITTED, "FAILED", ROLLED_BACK, "DEGRADED")


def deployment_title(kind: str, number: int) -> str:
    """Returns the name of a deployment in events: `deployment 3`, or `rollback 3` for one to an older release."""
    return f"{'deployment' if kind == 'deploy' else kind} {number}"


Figures = dict[str, str | float | int | bool | None]


class Serving(msgspec.Struct, frozen=True):
    release: str
    name: str = ""
    since_s: float | None = None
    """Time at which the release began to serve, in seconds since 1970."""
    pid: int | None = None
    backend: str = ""
    summary: str = ""
    untrusted: str = ""
    """Advice if the agent trusts keys and none of them signed this release; empty otherwise."""
    processing: bool = False
    """Whether requests by its name go through pre- and postprocessing; `plain_name` is the model alone."""

    @property
    def plain_name(self) -> str:
        return f"{self.name}.raw" if self.processing else self.name


class Previous(msgspec.Struct, frozen=True):
    """Release that a rollback would return to."""

    release: str
    name: str = ""
    summary: str = ""
    reason: str = ""
    """Reason that a rollback to the release is refused; empty if it would be accepted."""


class Moment(msgspec.Struct, frozen=True):
    """Entry of a deployment into a state, with its time and reason."""

    state: str
    time_s: float
    reason: str = ""


class FleetDeployment(msgspec.Struct, frozen=True):
    """One attempt to put a release into service, or to go back to the one before."""

    id: int
    state: str
    kind: str = "deploy"
    model: str = ""
    """The added model that it is of; empty for the agent's first one."""
    release: str | None = None
    name: str = ""
    reason: str = ""
    requested: bool = False
    """Whether a person asked to take it back while it soaked; nothing is wrong with its release."""
    progress: Figures | None = None
    """Progress of the present state, while it lasts."""
    detail: Figures = {}
    """Measured figures by name."""
    history: tuple[Moment, ...] = ()
    text_routes: tuple[str, ...] = ()
    """Routes of OpenAI's protocol that answer for its model, by the deployment's `name`; empty if its release does
    not serve, or generates no text."""


class DeployPlan(msgspec.Struct, frozen=True):
    """Changes that a deployment would make; nothing was sent."""

    url: str
    name: str
    release: str
    summary: str
    size_bytes: int
    action: Literal["start", "replace", "rename", "add", "none"]
    """The model is the agent's first, replaces one of its name, one of another name, or is served beside them; or
    the release serves already."""
    replaces: Serving | None = None
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    baseline_ms: float | None = None
    latency_ms: float | None = None
    accuracy_db: float | None = None
    floor_db: float | None = None
    problem: str = ""
    """Reason that the agent would refuse the deployment; empty if none is known."""
    hint: str = ""
    code: str = ""
    """Code of the problem: `unsigned`, `busy`, `other-name`, `other-device`."""


class ServerBatching(msgspec.Struct, frozen=True):
    """Whether an agent runs the requests to a model together, and why or why not."""

    max_size: int
    max_delay_us: int
    used: bool
    reason: str


class ServerDrift(msgspec.Struct, frozen=True):
    """Whether requests to the serving release, and its answers, still look like the first ones."""

    state: Literal["learning", "normal", "alarm"]
    release: str = ""
    requests: int = 0
    """Number of reference requests seen so far."""
    reference_requests: int = 0
    tensor: str = ""
    statistic: str = ""
    since_s: float | None = None
    sentence: str = ""
    """Description of the change; empty without an alarm."""


class ModelStatus(msgspec.Struct, frozen=True):
    """Status of one of the models of an agent."""

    state: str
    name: str = ""
    serving: Serving | None = None
    previous: Previous | None = None
    deployment: FleetDeployment | None = None
    batching: ServerBatching | None = None
    """Batching of the server; None if no batches were requested."""
    drift: ServerDrift | None = None
    """Drift of the requests; None if nothing serves or drift is not watched."""
    reason: str = ""
    current: str | None = None
    """The release on the device that serves or should serve."""


class OrderedModel(msgspec.Struct, frozen=True, omit_defaults=True):
    """One model of an order of several, and its result."""

    model: str
    kind: str = "deploy"
    deployment: int | None = None
    state: str = ""
    """The state of its deployment, such as SOAKING; empty before it begins, and where nothing was to be done."""
    reason: str = ""


class FleetOrder(msgspec.Struct, frozen=True):
    """An order of several models: all of them are committed, or none."""

    id: int
    state: str
    reason: str = ""
    """The reason for which it was taken back, with the name of the model that failed."""
    models: tuple[OrderedModel, ...] = ()
    returns: int = 0
    """The order that it takes back."""


class RefusedFile(msgspec.Struct, frozen=True):
    """A file in the watched folder of an agent that is not deployed."""

    file: str
    reason: str


class Status(msgspec.Struct, frozen=True):
    state: str
    serving: Serving | None = None
    previous: Previous | None = None
    deployment: FleetDeployment | None = None
    batching: ServerBatching | None = None
    """Batching of the server; None if no batches were requested."""
    drift: ServerDrift | None = None
    """Drift of the requests; None if nothing serves or drift is not watched."""
    reason: str = ""
    """Description of the problem, if there is one."""
    trust: str = "unsigned"
    uptime_s: float = 0.0
    models: tuple[ModelStatus, ...] = ()
    """All models, this one first; agents of before tell none."""
    current: str | None = None
    """The release on the device that serves or should serve."""
    order: FleetOrder | None = None
    """The last order of several models."""
    watched: tuple[RefusedFile, ...] = ()
    """The files in its watched folder that it refuses."""


class Release(msgspec.Struct, frozen=True):
    id: str
    name: str = ""
    state: str = ""
    digest: str = ""
    summary: str = ""
    created: str = ""
    reason: str = ""
    pinned: bool = False


class Collected(msgspec.Struct, frozen=True):
    """The releases that a garbage collection removed, or would remove."""

    releases: tuple[str, ...]
    dry_run: bool = False


class Removed(msgspec.Struct, frozen=True):
    """The model that an agent has removed."""

    removed: str


class Releases(msgspec.Struct, frozen=True):
    releases: tuple[Release, ...]
    trust: str = "unsigned"


class JournalEntry(msgspec.Struct, frozen=True):
    seq: int
    time_s: float
    state: str
    deployment: int | None = None
    release: str | None = None
    reason: str = ""


class Journal(msgspec.Struct, frozen=True):
    """Some entries of the agent's journal, and after which to ask for more."""

    events: tuple[JournalEntry, ...]
    next: int
