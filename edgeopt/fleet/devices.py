"""The devices of a fleet as the broker's retained documents show them."""

from collections.abc import Iterable, Mapping

import msgspec

from edgeopt.bundle.sign import Envelope, PublicKey
from edgeopt.bundle.signed_document import SignatureError, opened_document, verify_document
from edgeopt.decoding import thread_safe
from edgeopt.fleet.mqtt_documents import (
    DESIRED_TYPE,
    CommandAnswer,
    DesiredBundle,
    DesiredState,
    Presence,
    Reported,
    TelemetryReport,
    read_reported,
)
from edgeopt.fleet.mqtt_topics import NAME, FleetTopics
from edgeopt.fleet.records import FINAL, FleetDeployment, ModelStatus, Status

_BAD_DOCUMENT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class DeviceReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """Known facts about one device of a fleet."""

    presence: Presence | None = None
    reported: Reported[Status] | None = None
    desired: DesiredBundle | None = None
    """Bundle in the retained desired state."""
    desired_sequence: int = 0
    telemetry: TelemetryReport | None = None
    """The last one, for clients that subscribe to it: it is not retained."""
    answer: CommandAnswer | None = None
    """Answer of the device to the last command of this client."""
    claimed_by: str = ""
    """The newer rollout that will order the device."""

    @property
    def online(self) -> bool:
        return self.presence is not None and self.presence.state == "online"

    @property
    def labels(self) -> Mapping[str, str]:
        return {} if self.presence is None else self.presence.labels

    @property
    def status(self) -> Status | None:
        return None if self.reported is None else self.reported.status

    def of_model(self, name: str) -> Status | ModelStatus | None:
        """The state of one of its models, the first one by default."""
        models = () if self.status is None else self.status.models
        found = next((each for each in models if name and each.name == name), None)
        return self.status if found is None and not (name and models) else found

    def has_added(self, name: str) -> bool:
        """Whether it has a model of this name beside its first one, which cannot be removed."""
        return self.status is not None and any(each.name == name for each in self.status.models[1:])

    def deployment(self, number: int | None, model: str) -> FleetDeployment | None:
        """The one of a model (empty: the first one) with this number, or a later one if that is the last."""
        if self.status is None or number is None:
            return None
        all_ = [self.status.deployment, *(each.deployment for each in self.status.models)]
        found = [each for each in all_ if each is not None and each.model == model]
        exact = next((each for each in found if each.id == number), None)
        return exact or next((each for each in found if each.id > number), None)


class FleetView:
    """Collects retained documents; unreadable ones are ignored, as devices do with unknown messages."""

    def __init__(self, topics: FleetTopics, key: PublicKey | None = None) -> None:
        """Starts without devices; with a key, ignores unsigned desired states: a rollback signs them again."""
        self._topics = topics
        self._key = key
        self.devices: dict[str, DeviceReport] = {}

    def take(self, topic: str, content: bytes) -> str:
        """The name of the device that the message is of; empty for other messages."""
        parts = self._topics.parts(topic)
        if len(parts) != 2 or not NAME.fullmatch(parts[0]):
            return ""
        device, what = parts
        known = self.devices.get(device, DeviceReport())
        try:
            if what == "status":
                known = self._with_presence(known, content)
            elif what == "reported":
                reported = read_reported(content) if content else None
                known = msgspec.structs.replace(known, reported=reported)
            elif what == "desired":
                known = _with_desired(known, content, self._key)
            elif what == "tele":
                telemetry = msgspec.json.decode(content, type=thread_safe(TelemetryReport))
                known = msgspec.structs.replace(known, telemetry=telemetry)
            else:
                return ""
        except _BAD_DOCUMENT:
            return ""
        self.devices[device] = known
        return device

    def _with_presence(self, known: DeviceReport, content: bytes) -> DeviceReport:
        found = msgspec.json.decode(content, type=thread_safe(Presence)) if content else None
        if found is None or not found.after(known.presence):
            return known if found is not None else msgspec.structs.replace(known, presence=None)
        return msgspec.structs.replace(known, presence=found)


def _with_desired(known: DeviceReport, content: bytes, key: PublicKey | None) -> DeviceReport:
    if not content:
        return msgspec.structs.replace(known, desired=None, desired_sequence=0)
    envelope = opened_document(content, DESIRED_TYPE)
    state = msgspec.json.decode(content if envelope is None else envelope.payload, type=thread_safe(DesiredState))
    desired = state.desired if key is None or _is_signed(envelope, key) else None
    return msgspec.structs.replace(known, desired=desired, desired_sequence=state.sequence)


def _is_signed(envelope: Envelope | None, key: PublicKey) -> bool:
    try:
        return envelope is not None and bool(verify_document(envelope, [key]))
    except SignatureError:
        return False


class FleetDevice(msgspec.Struct, frozen=True):
    """One line of `edgeopt fleet devices`."""

    device: str
    online: bool
    agent: str = ""
    labels: dict[str, str] = {}
    state: str = ""
    """State of the agent, such as serving."""
    name: str = ""
    release: str = ""
    deployment: str = ""
    """The state of the last deployment."""
    desired: str = ""
    """Progress of the desired state; empty if the device follows none."""
    reason: str = ""
    seen_s: float | None = None
    """Time of the last report, in seconds since 1970."""
    since_s: float | None = None
    """Time at which the device came online or went offline, in seconds since 1970; None if unknown."""
    summary: str = ""
    """Summary of how the release runs."""
    latency_ms: float | None = None
    """Latency of the serving release on its golden inputs, measured when it was deployed."""
    latency_p50_ms: float | None = None
    """Median latency of requests in the last telemetry (`--follow` only: the broker does not keep it)."""
    drift: str = ""
    """learning, normal or alarm; empty where requests are not watched."""
    stage: str = ""
    """The deployment that is in progress: its state, such as SOAKING."""
    models: dict[str, str] = {}
    """The state of each model of the desired state, where it names several."""
    unknown_since_s: float | None = None
    """Since when nothing is known of its presence, because the broker is away (`--follow` only)."""


class FleetDevices(msgspec.Struct, frozen=True):
    fleet: str
    devices: tuple[FleetDevice, ...]


def described(name: str, report: DeviceReport) -> FleetDevice:
    presence, reported, status = report.presence, report.reported, report.status
    serving = None if status is None else status.serving
    last = None if status is None else status.deployment
    following = None if reported is None else reported.desired
    refused = following is not None and (
        following.state == "refused" or (following.state == "failed" and following.order is not None)
    )
    return FleetDevice(
        name,
        report.online,
        "" if presence is None else presence.agent,
        dict(report.labels),
        "" if status is None else status.state,
        "" if serving is None else serving.name,
        "" if serving is None else serving.release,
        "" if last is None else last.state,
        "" if following is None else following.state,
        following.reason if following is not None and refused else "" if last is None else last.reason,
        None if reported is None else reported.time_s,
        (presence.time_s or None) if presence is not None else None,
        "" if serving is None else serving.summary,
        serving_latency_ms(status),
        _latency_of_requests_ms(report),
        "" if status is None or status.drift is None else status.drift.state,
        last.state if last is not None and last.state not in FINAL else "",
        {} if following is None else {each.model: each.state for each in following.models},
    )


def current_release(status: Status | ModelStatus | None) -> str:
    """Returns the release that serves or should serve; older agents report only one that serves."""
    if status is None:
        return ""
    return status.current or (status.serving.release if status.serving is not None else "")


def serving_latency_ms(status: Status | ModelStatus | None) -> float | None:
    """Latency of the current release on its golden inputs, if its deployment is the last one."""
    if status is None or status.deployment is None:
        return None
    if not status.deployment.release or status.deployment.release != current_release(status):
        return None
    measured = status.deployment.detail.get("latency_ms")
    return float(measured) if isinstance(measured, int | float) else None


def _latency_of_requests_ms(report: DeviceReport) -> float | None:
    serving = None if report.status is None else report.status.serving
    if serving is None or report.telemetry is None:
        return None
    return report.telemetry.models.get(serving.name, {}).get("latency_p50_ms")


def known_names(devices: Mapping[str, DeviceReport]) -> Iterable[str]:
    """Devices that have announced themselves; an order alone makes no device."""
    return sorted(name for name, each in devices.items() if each.presence is not None or each.reported is not None)
