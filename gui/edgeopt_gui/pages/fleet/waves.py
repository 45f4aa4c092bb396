"""The waves of a rollout by what their devices do."""

from collections.abc import Callable
from dataclasses import dataclass

from edgeopt import units
from edgeopt.fleet.rollout_commands import RolloutDevice, RolloutReport
from edgeopt.views.rollout import bundle_text

_SOAKING = "SOAKING"


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """Devices of a wave that are drawn as one segment."""

    key: str
    title: str
    holds: Callable[[RolloutDevice], bool]


GROUPS: tuple[DeviceGroup, ...] = (
    DeviceGroup("done", "done", lambda each: each.state == "done"),
    DeviceGroup("returned", "rolled back", lambda each: each.state == "rolled-back"),
    DeviceGroup("soaking", "soaking", lambda each: each.state == "deploying" and each.stage == _SOAKING),
    DeviceGroup(
        "offline",
        "offline",
        lambda each: each.state in {"waiting", "ordered", "rolling-back"} and not each.online,
    ),
    DeviceGroup(
        "updating",
        "updating",
        lambda each: each.state in {"ordered", "deploying", "rolling-back"},
    ),
    DeviceGroup("failed", "failed", lambda each: each.state in {"failed", "stuck", "rollback-failed"}),
    DeviceGroup("waiting", "waiting", lambda each: each.state in {"planned", "waiting"}),
    DeviceGroup("left", "left alone", lambda _: True),
)
"""The first that holds is that of a device; the last has those that were withdrawn or follow something newer."""


@dataclass(frozen=True, slots=True)
class Wave:
    title: str
    counts: tuple[tuple[DeviceGroup, int], ...]
    """Number of devices in each group, without empty groups."""

    @property
    def size(self) -> int:
        return sum(number for _, number in self.counts)

    @property
    def text(self) -> str:
        return ", ".join(f"{number} {group.title}" for group, number in self.counts)


def group_of(device: RolloutDevice) -> DeviceGroup:
    return next(group for group in GROUPS if group.holds(device))


def waves_of(report: RolloutReport) -> tuple[Wave, ...]:
    counted: list[dict[str, int]] = [{} for _ in report.waves]
    for device in report.devices:
        counts, key = counted[device.wave - 1], group_of(device).key
        counts[key] = counts.get(key, 0) + 1
    return tuple(
        Wave(f"Wave {number}", tuple((group, counts[group.key]) for group in GROUPS if group.key in counts))
        for number, counts in enumerate(counted, 1)
    )


def headline(report: RolloutReport) -> str:
    """Returns the phase and wave of a rollout: `Running, wave 2 of 3`."""
    phase = report.phase.replace("-", " ").capitalize()
    return f"{phase}, wave {report.wave} of {len(report.waves)}" if report.wave else phase


def plan_text(report: RolloutReport, stop_at_failures: str) -> str:
    """Returns the plan of a rollout as text, for confirmation."""
    names: dict[int, list[str]] = {}
    for device in report.devices:
        names.setdefault(device.wave, []).append(device.device)
    lines = [
        f"Wave {number}: {units.count(size, 'device')} ({_short_list(names.get(number, []))})"
        for number, size in enumerate(report.waves, 1)
    ]
    end = (
        f"A wave begins when the one before is complete. The rollout stops when more than {stop_at_failures} of "
        "the devices fail. If the app is closed, no further wave begins until a client takes the rollout over: "
        "the broker keeps its state."
    )
    return "\n".join((f"Bundle: {bundle_text(report)}", *lines, "", end))


def _short_list(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]}, {names[1]}, … {names[-1]}"
