"""The states of a rollout in words, for terminals and the app."""

from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from edgeopt.errors import printable
from edgeopt.fleet.rollout_documents import STATES, device_word

if TYPE_CHECKING:
    from edgeopt.fleet.rollout_commands import RolloutDevice, RolloutReport


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
    offline = device.state in {"ordered", "rolling-back"} and not device.online
    return device_word(device.state, device.stage) + (", offline" if offline else "")
