"""Devices and a rollout to photograph."""

import time

from edgeopt.fleet.devices import FleetDevice
from edgeopt.fleet.fleet_watch import FleetUpdate
from edgeopt.fleet.rollout_commands import RolloutDevice, RolloutReport

_DEVICES, _FIRST, _SECOND = 24, 1, 6
_OFFLINE, _SLOW, _DRIFTING = 17, 4, 9
_OLD, _NEW = "3f9a1c7be204", "c81d50aa97ef"


def example_fleet() -> FleetUpdate:
    """Returns 24 cameras at two sites, in the second wave of a rollout."""
    now_s = time.time()
    numbers = range(1, _DEVICES + 1)
    return FleetUpdate(
        "default",
        tuple(_device(number, now_s) for number in numbers),
        rollouts=(_rollout(tuple(_progress(number, now_s) for number in numbers)),),
    )


def _device(number: int, now_s: float) -> FleetDevice:
    updated = number <= _FIRST + 2 and number != _SLOW
    soaking = _FIRST + 2 < number <= _FIRST + _SECOND and number != _SLOW
    return FleetDevice(
        f"camera-{number:02d}",
        online=number != _OFFLINE,
        agent="0.1.0",
        labels={"site": "north" if number % 2 else "south"},
        state="deploying" if soaking else "serving",
        name="digits",
        release=_NEW if updated else _OLD,
        deployment="SOAKING" if soaking else "ROLLED_BACK" if number == _SLOW else "COMMITTED",
        reason="Its latency rose by 34 %." if number == _SLOW else "",
        seen_s=now_s - 60 * number,
        since_s=now_s - 3600 * 5,
        summary="onnxruntime, 4 threads, int8",
        latency_ms=3.1 + number % 5 / 10,
        drift="alarm" if number == _DRIFTING else "normal",
        stage="SOAKING" if soaking else "",
    )


def _progress(number: int, now_s: float) -> RolloutDevice:
    name, since_s = f"camera-{number:02d}", now_s - 90
    if number > _FIRST + _SECOND:
        return RolloutDevice(name, 3, "planned")
    wave = 1 if number <= _FIRST else 2
    if number == _SLOW:
        return RolloutDevice(
            name, wave, "failed", reason="rolled back: Its latency rose by 34 %.", since_s=since_s
        )
    if number <= _FIRST + 2:
        return RolloutDevice(name, wave, "done", since_s=since_s)
    return RolloutDevice(name, wave, "deploying", stage="SOAKING", since_s=since_s)


def _rollout(devices: tuple[RolloutDevice, ...]) -> RolloutReport:
    counts: dict[str, int] = {}
    for each in devices:
        counts[each.state] = counts.get(each.state, 0) + 1
    bundle = "https://models.example.com/bundles/digits.edgeopt"
    sizes = (_FIRST, _SECOND, _DEVICES - _FIRST - _SECOND)
    return RolloutReport(
        "digits-20261128", "running", "", bundle, "sha256:" + "c8" * 32, 2, sizes, counts, devices
    )
