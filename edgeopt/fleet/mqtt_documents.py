"""The documents between agents and clients over MQTT. Readers ignore unknown keys, except in orders."""

import re
from pathlib import Path
from typing import Generic, Literal, TypeVar

import msgspec

from edgeopt.bundle.signed_document import sign_document
from edgeopt.decoding import thread_safe
from edgeopt.fleet.records import OrderedModel, Status

DESIRED_TYPE = "application/vnd.edgeopt.desired+json"
"""The payload type of a signed `DesiredState`."""
COMMAND_TYPE = "application/vnd.edgeopt.command+json"
"""The payload type of a `SignedCommand`."""
LONGEST_BYTES = 64 << 10
"""Maximum size of an order or command; devices refuse longer ones."""
MAX_SEQUENCE = 10**16 - 1
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def is_digest(text: str) -> bool:
    return _DIGEST.fullmatch(text.lower()) is not None


class Presence(msgspec.Struct, frozen=True):
    """Whether a device is connected; a death counts for the session that it names, and for those before it."""

    state: Literal["online", "offline"]
    session: int
    """Higher at each connection of the device."""
    agent: str = ""
    """The version of the agent."""
    time_s: float = 0.0
    """Begin of the session, in seconds since 1970."""
    labels: dict[str, str] = {}
    """The configured labels, `target` (the profile that fits the device) and `kind`."""

    def after(self, known: "Presence | None") -> bool:
        """Whether it tells more than what is known: a late last will of an older session does not."""
        if known is None or self.session != known.session:
            return known is None or self.session > known.session
        return known.state == "online"


class DesiredModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One model of an order of several: a bundle that replaces or adds it, or its removal."""

    model: str
    """The name in the bundle; with `rename`, that of the model which it replaces."""
    bundle: str = ""
    digest: str = ""
    remove: bool = False


class DesiredBundle(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A request to serve the bundle at a URL, if it has this digest, or several models, all or none.

    It is the body of POST /api/v1/desired too. Agents of before refuse `models` as an unknown key.
    """

    bundle: str = ""
    digest: str = ""
    models: tuple[DesiredModel, ...] = ()
    model: str = ""
    """The model that it replaces, the first one by default; with `add`, the one that it adds."""
    add: bool = False
    force: bool = False
    rename: bool = False
    allow_downgrade: bool = False
    soak_s: float | None = None
    soak_requests: int | None = None


class DesiredState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Bundle that a device should serve, as a retained document."""

    sequence: int
    """Higher than that of every document before, such as the time in milliseconds; an older one is refused."""
    fleet: str
    device: str
    desired: DesiredBundle
    rollout: str = ""
    """The rollout that orders it, for the log of the device."""


StatusDocument = TypeVar("StatusDocument")
Progress = Literal["accepted", "waiting", "deploying", "refused", "done", "failed"]


class Following(msgspec.Struct, frozen=True):
    """Progress of a device with a `DesiredState`."""

    sequence: int
    state: Progress
    """waiting: until another deployment ends; done, failed: how its own deployment ended."""
    deployment: int | None = None
    model: str = ""
    code: str = ""
    reason: str = ""
    hint: str = ""
    time_s: float = 0.0
    order: int | None = None
    """The number of an order of several models, which has no deployment of its own."""
    models: tuple[OrderedModel, ...] = ()
    """The models of the order."""


class SearchInputs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The model of a search, its samples and its options."""

    model: str
    """URL of an ONNX file."""
    model_digest: str
    data: str = ""
    """URL of the samples, an .npz file."""
    data_digest: str = ""
    time_limit_s: float
    """Longest time of the search with its proof, without the transfers."""
    floor: str = ""
    metric: str = ""


class SearchOrder(SearchInputs, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A search that a device makes for itself."""

    id: str
    """Name of the search; the same again is the same search, which is not made twice."""
    put: str
    """URL of the bundle, which the device writes with PUT."""


SearchState = Literal["running", "done", "failed"]


class SearchResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The step that a search is in, or its result."""

    step: str = ""
    code: str = ""
    """Reason of a failure: `restarted`, `cancelled`, or the code of the error."""
    reason: str = ""
    bundle: str = ""
    """URL of the bundle that was found."""
    digest: str = ""
    summary: str = ""
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None


class SearchReport(SearchResult, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of the last `SearchOrder` of a device."""

    id: str
    state: SearchState
    time_s: float
    """Begin of this state or step, in seconds since 1970."""
    hint: str = ""


class Reported(msgspec.Struct, Generic[StatusDocument], frozen=True):
    """The state of a device: what GET /api/v1/status answers, and what became of the desired state."""

    session: int
    time_s: float
    status: StatusDocument
    desired: Following | None = None
    """The newest desired state that the device follows."""
    refused: Following | None = None
    """The last one that it refused although it follows another: a replay, a wrong signature, another device's."""
    search: SearchReport | None = None
    """The last search that was ordered."""


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A question or an order; MQTT's response topic and correlation data say where its answer is expected."""

    command: str
    model: str = ""
    to: str = ""
    """rollback: the release; empty for the previous one."""
    deployment: int = 0
    """deployment: its number."""
    order: int = 0
    """rollback: the number of the order of several models that is taken back."""
    search: SearchOrder | None = None
    """optimize: what is searched for."""
    id: str = ""
    """cancel-search: the search that is ended."""


class SignedCommand(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A command for one device, which performs it once and not late; it is sent in a signed envelope."""

    sequence: int
    """Higher than that of every command before, such as the time in milliseconds; an older one is refused."""
    fleet: str
    device: str
    correlation: str
    """The correlation data of the message."""
    expires_s: float
    """The time from which the device refuses it, in seconds since 1970."""
    command: Command


class CommandAnswer(msgspec.Struct, frozen=True):
    """The status and the document that the same request gets over HTTP."""

    status: int
    answer: dict[str, object]

    @property
    def refusal(self) -> str:
        """Returns why the command was refused; empty if it was accepted."""
        if self.status < 400:
            return ""
        error = self.answer.get("error")
        message = error.get("message") if isinstance(error, dict) else None
        return str(message or f"status {self.status}")

    @property
    def deployment(self) -> int | None:
        """Returns the number of the deployment that the command has begun."""
        return self._number("deployment")

    @property
    def order(self) -> int | None:
        """Returns the number of the order of several models that the command has begun or ended."""
        return self._number("order")

    def _number(self, key: str) -> int | None:
        begun = self.answer.get(key)
        number = begun.get("id") if isinstance(begun, dict) else None
        return number if isinstance(number, int) else None


class DeviceEvent(msgspec.Struct, frozen=True):
    """A state of a deployment, sent once; `number` tells the order, and a message that came twice."""

    session: int
    number: int
    time_s: float
    model: str
    deployment: int
    kind: str
    state: str
    release: str = ""
    reason: str = ""


class TelemetryReport(msgspec.Struct, frozen=True):
    """Figures of an interval: by model, and of the device."""

    session: int
    number: int
    time_s: float
    interval_s: float
    device: dict[str, float]
    models: dict[str, dict[str, float]] = {}


def read_reported(content: bytes) -> Reported[Status]:
    """Raises msgspec.DecodeError for anything else."""
    return msgspec.json.decode(content, type=thread_safe(Reported[Status]))


def desired_message(state: DesiredState, private_key_file: Path | None = None) -> bytes:
    """Returns the message that a client publishes on `Topics.desired`, retained; signed if a key is given."""
    content = msgspec.json.encode(state)
    return content if private_key_file is None else sign_document(DESIRED_TYPE, content, private_key_file)


def command_message(signed: SignedCommand, private_key_file: Path | None = None) -> bytes:
    """Returns what a client publishes on `Topics.command`; without a key it is the plain command."""
    if private_key_file is None:
        return msgspec.json.encode(signed.command)
    return sign_document(COMMAND_TYPE, msgspec.json.encode(signed), private_key_file)
