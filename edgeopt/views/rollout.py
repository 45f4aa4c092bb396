"""The states of a rollout in words, for terminals and the app."""

from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from edgeopt import units
from edgeopt.errors import printable
from edgeopt.fleet.rollout_documents import STATES, device_word

if TYPE_CHECKING:
    from edgeopt.fleet.rollout_commands import RolloutDevice, RolloutKind, RolloutReport


def counts_text(report: "RolloutReport") -> str:
    """`3 done, 1 soaking, 1 failed`."""
    places: dict[str, int] = {state: place for place, state in enumerate(STATES)}
    devices = sorted(report.devices, key=lambda each: places.get(each.state, len(places)))
    found = Counter(device_word(each.state, each.stage) for each in devices)
    return ", ".join(f"{count} {word}" for word, count in found.items())


def bundle_text(report: "RolloutReport") -> str:
    """`digits_cnn (release 0123456789ab)`, or the name of the file where the model's is not known yet."""
    if report.model_name:
        return f"{report.model_name} (release {report.release})"
    file = urlsplit(report.bundle).path.rpartition("/")[2] or "bundle"
    return f"{printable(file)} ({report.digest[: len('sha256:') + 12]}…)"


def state_text(device: "RolloutDevice") -> str:
    """`soaking`, `ordered, offline`."""
    offline = device.state in {"waiting", "ordered", "rolling-back"} and not device.online
    return device_word(device.state, device.stage) + (", offline" if offline else "")


def kind_text(kind: "RolloutKind") -> str:
    """`searching (measuring)`, `ready`."""
    return kind.state + (f" ({printable(kind.step)})" if kind.step else "")


def speedup_of(kind: "RolloutKind") -> str:
    """`1.42x [1.40 1.44]`, as the bundle states it; empty until it does."""
    if kind.speedup is None or kind.speedup_low is None or kind.speedup_high is None:
        return ""
    return units.speedup_text(kind.speedup, kind.speedup_low, kind.speedup_high)
