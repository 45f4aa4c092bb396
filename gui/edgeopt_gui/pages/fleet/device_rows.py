"""The devices of a fleet in words: the columns of their table, and the details of one."""

import time
from collections.abc import Callable

from edgeopt import units
from edgeopt.errors import printable
from edgeopt.fleet.devices import FleetDevice
from edgeopt.views.words import ago
from edgeopt_gui.agents.states import words
from edgeopt_gui.widgets.fact import Fact, FactGroup
from edgeopt_gui.widgets.records import Column, Look

_RELEASE_LETTERS = 12
_TODAY_S = 86_400.0


def presence_text(device: FleetDevice) -> str:
    """Returns `online since 14:03`, `offline`, or `unknown since 12:03` while the broker is away."""
    if device.unknown_since_s is not None:
        return f"unknown since {_moment(device.unknown_since_s)}"
    state = "online" if device.online else "offline"
    return state if device.since_s is None else f"{state} since {_moment(device.since_s)}"


def _is_absent(device: FleetDevice) -> bool:
    return not device.online or device.unknown_since_s is not None


def state_text(device: FleetDevice) -> str:
    """Returns the stage of the deployment in progress, or else the agent's state."""
    if device.stage:
        return words(device.stage.lower())
    return device.state.replace("_", " ")


def release_text(device: FleetDevice) -> str:
    return device.release[:_RELEASE_LETTERS]


def latency_ms(device: FleetDevice) -> float | None:
    """Returns the p50 latency of requests in ms if the device reports it, otherwise that on the golden inputs."""
    return device.latency_ms if device.latency_p50_ms is None else device.latency_p50_ms


def latency_text(device: FleetDevice) -> str:
    value = latency_ms(device)
    return "" if value is None else units.milliseconds(value)


def latency_tip(device: FleetDevice) -> str:
    if device.latency_p50_ms is not None:
        return "Median of the requests in the last telemetry"
    return "" if device.latency_ms is None else "On the golden inputs, measured when it was deployed"


def report_text(device: FleetDevice) -> str:
    return "" if device.seen_s is None else ago(max(0.0, time.time() - device.seen_s))


def labels_text(device: FleetDevice) -> str:
    return ", ".join(f"{name}={value}" for name, value in device.labels.items())


def problem_text(device: FleetDevice) -> str:
    """Returns why the device's last deployment failed or its order was refused."""
    return printable(device.reason)


COLUMNS: tuple[Column[FleetDevice], ...] = (
    Column(
        "Device",
        lambda device: device.device,
        tip=lambda device: device.device,
        cut_middle=True,
        firm_letters=19,
        max_letters=34,
    ),
    Column(
        "Presence",
        lambda device: (not device.online, device.since_s or 0.0),
        presence_text,
        tip=presence_text,
        quiet=_is_absent,
        min_letters=19,
        firm_letters=20,
    ),
    Column("State", state_text, quiet=_is_absent, min_letters=10),
    Column(
        "Model",
        lambda device: printable(device.name),
        tip=lambda device: printable(device.name),
        cut_middle=True,
        optional=True,
        max_letters=28,
    ),
    Column("Release", release_text, tip=lambda device: device.release, firm_letters=15, max_letters=20),
    Column("Latency", latency_ms, latency_text, align="right", tip=latency_tip),
    Column("Drift", lambda device: device.drift or None, min_letters=9),
    Column(
        "Labels",
        labels_text,
        tip=labels_text,
        optional=True,
        cut_middle=True,
        title_tip="Labels select the devices of a rollout, such as their site or target",
    ),
    Column(
        "Last report",
        lambda device: device.seen_s,
        report_text,
        firm_letters=14,
        tip=lambda device: "" if device.seen_s is None else _moment(device.seen_s),
        stretch=True,
    ),
)
AGE_COLUMN = len(COLUMNS) - 1


def look(device: FleetDevice) -> Look:
    return "strong" if needs_attention(device) else "plain"


def needs_attention(device: FleetDevice) -> bool:
    return bool(device.reason) or device.drift == "alarm" or device.state == "degraded"


FILTERS: tuple[tuple[str, Callable[[FleetDevice], bool] | None], ...] = (
    ("All devices", None),
    ("Online", lambda device: device.online),
    ("Offline", lambda device: not device.online),
    ("With a problem", needs_attention),
)


def facts_of(device: FleetDevice) -> tuple[FactGroup, ...]:
    """Returns the details of a device, without lines for unknown ones."""
    rows = (
        ("Presence", presence_text(device)),
        ("Last report", report_text(device)),
        ("Agent", device.agent),
        ("State", state_text(device)),
        ("Problem", problem_text(device)),
    )
    release = (
        ("Model", printable(device.name)),
        ("Release", device.release),
        ("Runs", printable(device.summary)),
        ("Latency, golden inputs", "" if device.latency_ms is None else units.milliseconds(device.latency_ms)),
        ("Latency, requests", "" if device.latency_p50_ms is None else units.milliseconds(device.latency_p50_ms)),
        ("Drift", device.drift),
        ("Last deployment", words(device.deployment.lower()) if device.deployment else ""),
        ("Desired state", device.desired),
    )
    labels = tuple(Fact(name, value) for name, value in device.labels.items())
    groups = (
        FactGroup("", tuple(Fact(name, value) for name, value in rows if value)),
        FactGroup("Release", tuple(Fact(name, value) for name, value in release if value)),
        FactGroup("Labels", labels),
    )
    return tuple(group for group in groups if group.facts)


def _moment(time_s: float) -> str:
    """Returns the time of a recent moment, or the date of an older one."""
    pattern = "%H:%M" if abs(time.time() - time_s) < _TODAY_S else "%Y-%m-%d"
    return time.strftime(pattern, time.localtime(time_s))
