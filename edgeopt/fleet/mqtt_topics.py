"""The topics of a device on an MQTT broker: PREFIX/FLEET/DEVICE/WHAT."""

import re
from dataclasses import dataclass

PREFIX = "edgeopt/v1"
FLEET = "default"
ROLES = ("view", "deploy")
"""Each has a topic for commands, so that the broker can allow one and deny the other."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Fleets, devices and clients: no slash and none of the wildcards of topics."""
PREFIX_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,64}(/[A-Za-z0-9._-]{1,64}){0,7}")


@dataclass(frozen=True, slots=True)
class Topics:
    fleet: str
    device: str
    prefix: str = PREFIX

    @property
    def base(self) -> str:
        return f"{self.prefix}/{self.fleet}/{self.device}"

    @property
    def status(self) -> str:
        """Retained: a `Presence`, the last will included."""
        return f"{self.base}/status"

    @property
    def desired(self) -> str:
        """Retained, written by clients: a `DesiredState`, in a signed envelope where the device trusts keys."""
        return f"{self.base}/desired"

    @property
    def reported(self) -> str:
        """Retained: a `Reported`."""
        return f"{self.base}/reported"

    @property
    def telemetry(self) -> str:
        """A `TelemetryReport` at intervals."""
        return f"{self.base}/tele"

    @property
    def event(self) -> str:
        """A `DeviceEvent` for each state of a deployment."""
        return f"{self.base}/event"

    def command(self, role: str) -> str:
        """Written by clients: a `Command` with an answer topic and correlation data."""
        return f"{self.base}/cmd/{role}"

    def answer(self, client: str) -> str:
        """Returns the topic of a client's `CommandAnswer`s; a device answers only on such topics."""
        return f"{self.base}/answer/{client}"

    def is_answer(self, topic: str) -> bool:
        head, _, client = topic.rpartition("/")
        return head == f"{self.base}/answer" and NAME.fullmatch(client) is not None


@dataclass(frozen=True, slots=True)
class FleetTopics:
    """Topics that clients of a whole fleet read, and on which they keep their rollouts."""

    fleet: str = FLEET
    prefix: str = PREFIX

    def device(self, name: str) -> Topics:
        return Topics(self.fleet, name, self.prefix)

    @property
    def devices(self) -> tuple[str, ...]:
        """Patterns of all that is retained of devices."""
        return tuple(f"{self.prefix}/{self.fleet}/+/{what}" for what in ("status", "desired", "reported"))

    @property
    def telemetry(self) -> str:
        """The pattern of the figures of all devices."""
        return f"{self.prefix}/{self.fleet}/+/tele"

    @property
    def rollouts(self) -> str:
        """The pattern of all documents of rollouts. No device can have the name: it begins with a `_`."""
        return f"{self.prefix}/{self.fleet}/_rollouts/+/+"

    def rollout(self, name: str) -> str:
        """Retained, written by the client that runs it: a `Rollout`, signed if it was begun with a key."""
        return f"{self.prefix}/{self.fleet}/_rollouts/{name}/state"

    def control(self, name: str) -> str:
        """Retained, written by any client: a `Control`."""
        return f"{self.prefix}/{self.fleet}/_rollouts/{name}/control"

    def answers(self, client: str) -> str:
        """The pattern of what all devices answer to a client."""
        return f"{self.prefix}/{self.fleet}/+/answer/{client}"

    def marker(self, client: str) -> str:
        """Returns the topic on which a client sends itself a marker: earlier retained messages come before it."""
        return f"{self.prefix}/{self.fleet}/_clients/{client}/marker"

    def last_marker(self, client: str, number: int) -> str:
        """The topic of a retained message of a client, which comes if all retained messages before it came."""
        return f"{self.prefix}/{self.fleet}/_clients/{client}/last-{number}"

    def parts(self, topic: str) -> tuple[str, ...]:
        """The levels after the fleet; empty for a topic of another fleet."""
        head = f"{self.prefix}/{self.fleet}/"
        return tuple(topic[len(head) :].split("/")) if topic.startswith(head) else ()


def device_of(topic: str, fleet: str, prefix: str = PREFIX) -> str:
    """The device whose topic it is; empty for a topic that is none of this fleet."""
    head = f"{prefix}/{fleet}/"
    return topic[len(head) :].partition("/")[0] if topic.startswith(head) else ""
