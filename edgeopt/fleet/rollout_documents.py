"""Documents of a rollout: its retained state, from which any client can continue it, and clients' requests."""

from pathlib import Path
from typing import Literal, get_args

import msgspec

from edgeopt.bundle.sign import PublicKey
from edgeopt.bundle.signed_document import opened_document, sign_document, verify_document
from edgeopt.decoding import thread_safe
from edgeopt.errors import InputError
from edgeopt.fleet.mqtt_documents import Command, DesiredBundle, DesiredState, SearchInputs, SearchResult

ROLLOUT_TYPE = "application/vnd.edgeopt.rollout+json"
"""The payload type of a signed `Rollout`."""

CONTROL_TYPE = "application/vnd.edgeopt.rollout-control+json"

DeviceState = Literal[
    "planned",
    "waiting",
    "ordered",
    "withdrawn",
    "deploying",
    "stuck",
    "superseded",
    "failed",
    "done",
    "rolling-back",
    "rolled-back",
    "rollback-failed",
]
STATES: tuple[DeviceState, ...] = get_args(DeviceState)
"""States in the order in which a device can pass through them; a later one is newer."""
Phase = Literal[
    "running", "paused", "completed", "cancelled", "stopped", "rolling-back", "rolled-back", "rollback-failed"
]
PHASES: tuple[Phase, ...] = get_args(Phase)
OPEN_PHASES: tuple[Phase, ...] = ("running", "paused")
"""Phases in which more waves may follow."""
Action = Literal["pause", "resume", "cancel", "rollback"]


KindState = Literal["searching", "found", "ready", "failed"]
KIND_STATES: tuple[KindState, ...] = get_args(KindState)
"""found: the device has uploaded a bundle, which the client has not checked yet; ready: devices may have it."""


class DeviceProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """One device of a rollout."""

    state: DeviceState = "planned"
    since_s: float = 0.0
    """Begin of the present state or stage, from which the time limit counts."""
    stage: str = ""
    """State of the device's deployment, such as SOAKING."""
    reason: str = ""
    online: bool = True
    """Whether it was connected when it was last seen waiting for its order."""
    serves_new: bool = False
    """Whether it has committed the bundle, even if a limit of the rollout counts it as failed."""
    before: int = -1
    """The place in `Rollout.sources` of what it was desired to serve; -1: nothing was."""
    before_sequence: int = 0
    release_before: str = ""
    latency_before_ms: float | None = None
    """Latency of the release before on its golden inputs, measured by the device; None if it was not reported."""
    order: int = 0
    """The number of its order of several models, on the device."""
    models: dict[str, str] = {}
    """The state of each model of that order."""
    refusal_before_s: float = 0.0
    """The time of the last refusal that it had reported before the order."""
    kind: str = ""
    """The label `kind` of the device, if each kind gets a bundle of its own."""


class RolloutSearch(SearchInputs, frozen=True, kw_only=True, omit_defaults=True):
    """The search that each kind of device makes for itself."""

    store: str
    """The URL, with a slash at its end, below which devices put their bundles."""


class KindProgress(SearchResult, frozen=True, kw_only=True, omit_defaults=True):
    """The search of one kind of device in a rollout."""

    device: str
    """The device that searches."""
    state: KindState = "searching"
    attempt: int = 1
    since_s: float = 0.0
    """Begin of the present state or step, in seconds since 1970."""


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """Limits beyond which a device counts as failed, or the rollout stops."""

    stop_at_failures: float = 0.0
    """The largest share of failed devices."""
    device_timeout_s: float = 3600.0
    """The longest time in one state."""
    max_error_share: float | None = None
    min_agreement_db: float | None = None
    max_slowdown: float | None = None
    """The largest increase of the latency, as a share of that of the release before."""


class Decision(msgspec.Struct, frozen=True):
    time_s: float
    what: str
    reason: str = ""


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a rollout. Nothing else is needed to go on with it."""

    name: str
    fleet: str
    sequence: int
    """Sequence number of each device's desired state: the same order again changes nothing, a newer one wins."""
    desired: DesiredBundle
    waves: tuple[tuple[str, ...], ...]
    devices: dict[str, DeviceProgress]
    limits: Limits = Limits()
    phase: Phase = "running"
    wave: int = 0
    """Number of waves that have begun."""
    wave_since_s: float = 0.0
    reason: str = ""
    decisions: tuple[Decision, ...] = ()
    sources: tuple[DesiredBundle, ...] = ()
    """Bundles that devices were desired to serve before."""
    control: int = 0
    """The sequence number of the last `Control` that was taken into account."""
    return_sequence: int = 0
    """Sequence number of the desired states of a rollback."""
    revision: int = 0
    """Higher with each document that is written."""
    model_name: str = ""
    """Name of the model in the bundle, if the client that began the rollout has read it."""
    release: str = ""
    """Name that agents give the bundle; empty where it is not known."""
    search: RolloutSearch | None = None
    """Set where each kind gets a bundle of its own; `desired` has the other keys of its orders."""
    kinds: dict[str, KindProgress] = {}
    """The kinds by the label `kind` of their devices."""


class Control(msgspec.Struct, frozen=True):
    """Request to control a rollout; the one with the highest sequence number counts."""

    action: Action
    sequence: int
    time_s: float


class Order(msgspec.Struct, frozen=True):
    """A message to a device: a desired state, a command, or with neither, nothing desired any more."""

    device: str
    document: DesiredState | None = None
    command: Command | None = None


def device_word(state: str, stage: str) -> str:
    """Returns what a device does, in one word for all views: `soaking`, `rolled back`."""
    return (stage or state).lower().replace("_", " ").replace("-", " ")


def phase_sentence(name: str, phase: str, reason: str = "") -> str:
    """Returns a sentence such as `Rollout r is completed.`"""
    failed = phase == "rollback-failed"
    outcome = f"The rollback of {name} failed" if failed else f"Rollout {name} is {phase.replace('-', ' ')}"
    return f"{outcome}: {reason.rstrip('.')}." if reason else f"{outcome}."


def rollout_message(rollout: Rollout, key: Path | None = None) -> bytes:
    content = msgspec.json.encode(rollout)
    return content if key is None else sign_document(ROLLOUT_TYPE, content, key)


def control_message(control: Control, key: Path | None = None) -> bytes:
    content = msgspec.json.encode(control)
    return content if key is None else sign_document(CONTROL_TYPE, content, key)


def is_signed(content: bytes) -> bool:
    return opened_document(content, ROLLOUT_TYPE) is not None


def read_rollout(content: bytes, key: PublicKey | None = None) -> Rollout:
    """The rollout in a message; with a key only if it is signed by that key. Raises InputError otherwise."""
    envelope = opened_document(content, ROLLOUT_TYPE)
    if key is not None:
        if envelope is None:
            raise InputError(
                "The rollout on the broker is not signed, so it is not continued with a key.",
                "If you began it without a key, leave out --key.",
            )
        verify_document(envelope, [key])
    try:
        return msgspec.json.decode(content if envelope is None else envelope.payload, type=thread_safe(Rollout))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"The rollout on the broker cannot be read: {error}.", "Check who writes to its topic."
        ) from None


def read_control(content: bytes, key: PublicKey | None = None) -> Control:
    """Returns the control in a message; raises InputError for unreadable ones, and rollbacks unsigned by `key`."""
    envelope = opened_document(content, CONTROL_TYPE)
    try:
        found = msgspec.json.decode(content if envelope is None else envelope.payload, type=thread_safe(Control))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"What was asked of the rollout cannot be read: {error}.") from None
    if key is not None and found.action == "rollback":
        if envelope is None:
            raise InputError("The rollback of a signed rollout must be signed.", "Pass --key.")
        verify_document(envelope, [key])
    return found
