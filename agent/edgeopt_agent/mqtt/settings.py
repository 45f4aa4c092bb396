"""The table `[mqtt]` of the configuration: the broker, who the device is there, and limits."""

import re
import socket
from pathlib import Path

import msgspec

from edgeopt.fleet.broker import Broker, read_broker
from edgeopt.fleet.mqtt_topics import FLEET, NAME, PREFIX, PREFIX_PATTERN, Topics

_MAX_LABELS = 32
_LONGEST_HOST_NAME = 64
_TLS_FILES = ("ca_file", "cert_file", "key_file")


class MqttSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: str = ""
    """The broker: mqtts://HOST:PORT, or mqtt:// without TLS."""
    fleet: str = FLEET
    device: str = ""
    """The name of this device in the fleet, and its client id; empty: the host name."""
    labels: dict[str, str] = {}
    """Labels by which rollouts select devices, such as `site = "north"`."""
    prefix: str = PREFIX
    username: str = ""
    password_file: Path | None = None
    ca_file: Path | None = None
    """Certificates that may sign the broker's; without it, the system's."""
    cert_file: Path | None = None
    """Certificate by which the broker identifies this device."""
    key_file: Path | None = None
    """Key of `cert_file`, PEM without a password."""
    allow_plain: bool = False
    """Whether mqtt:// may lead beyond loopback, such as in a VPN."""
    keepalive_s: int = 60
    session_expiry_s: int = 3600
    """Time for which the broker keeps commands for a device that is away."""
    telemetry_s: float = 60.0
    """Interval between two reports; 0: none."""
    outbox_bytes: int = 64 << 20
    outbox_s: float = 72 * 3600.0
    """Time for which telemetry waits on the disk for the broker, up to a total of `outbox_bytes`."""
    reconnect_s: float = 1.0
    """Delay before the device connects again; doubled after each failure, up to `reconnect_most_s`."""
    reconnect_most_s: float = 60.0


def broker_of(settings: MqttSettings) -> Broker:
    return read_broker(settings.url)


def topics_of(settings: MqttSettings) -> Topics:
    return Topics(settings.fleet, device_name(settings.device), settings.prefix)


def wrong_mqtt(settings: MqttSettings) -> tuple[str, str]:
    """Returns what is wrong with the table and what to do; empty if it can be used."""
    try:
        broker = broker_of(settings)
    except ValueError:
        return "'mqtt.url' is not the address of a broker.", 'For instance url = "mqtts://broker.example.com".'
    for name in ("fleet", "device"):
        value = getattr(settings, name)
        if value and not NAME.fullmatch(value):
            return f"'mqtt.{name}' cannot be a name.", "Use at most 64 letters, digits, '.', '_' and '-'."
    if not settings.fleet or not PREFIX_PATTERN.fullmatch(settings.prefix):
        return "'mqtt.prefix' and 'mqtt.fleet' must be topics without wildcards.", f'For instance "{PREFIX}".'
    words = (*settings.labels, *settings.labels.values())
    if len(settings.labels) > _MAX_LABELS or not all(NAME.fullmatch(word) for word in words):
        return (
            "'mqtt.labels' has a name or a value that cannot be used.",
            f"Use at most {_MAX_LABELS} labels of up to 64 letters, digits, '.', '_' and '-'.",
        )
    if not (broker.tls or broker.loopback or settings.allow_plain):
        return (
            f"'mqtt.url' leads to {broker.host} without TLS: passwords and orders could be read and changed.",
            "Write mqtts://…; or, in a VPN, allow_plain = true.",
        )
    if not broker.tls and any(getattr(settings, name) for name in _TLS_FILES):
        return "'mqtt' names certificates, but the address has no TLS.", "Write mqtts://… in mqtt.url."
    if (settings.cert_file is None) != (settings.key_file is None):
        return "'mqtt.cert_file' and 'mqtt.key_file' must be given together.", "Name both, or neither."
    if settings.password_file is not None and not settings.username:
        return "'mqtt.password_file' needs a user name.", 'Add username = "…".'
    return _wrong_number(settings)


def _wrong_number(settings: MqttSettings) -> tuple[str, str]:
    ranges = (
        ("keepalive_s", 5, 65_535),
        ("session_expiry_s", 0, 0xFFFF_FFFE),
        ("telemetry_s", 0, 86_400),
        ("outbox_bytes", 64 << 10, 1e12),
        ("outbox_s", 60, 1e9),
        ("reconnect_s", 0.01, 3600),
        ("reconnect_most_s", 0.01, 86_400),
    )
    for name, minimum, maximum in ranges:
        value = getattr(settings, name)
        if not minimum <= value <= maximum:
            return (
                f"'mqtt.{name}' is {value}; it must be from {minimum:.15g} to {maximum:.15g}.",
                "Correct the value.",
            )
    return "", ""


def device_name(named: str) -> str:
    """Returns the name in the settings, or the host name, without characters that topics cannot have."""
    if named:
        return named
    found = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:_LONGEST_HOST_NAME].lstrip("._-")
    return found or "device"
