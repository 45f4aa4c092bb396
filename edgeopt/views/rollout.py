"""The states of a rollout in words, for terminals and the app."""

from typing import TYPE_CHECKING

from edgeopt.fleet.rollout_documents import STATES

if TYPE_CHECKING:
    from edgeopt.fleet.rollout_commands import RolloutDevice, RolloutReport


def counts_text(report: "RolloutReport") -> str:
    """`3 done, 1 failed`."""
    found = [f"{report.counts[state]} {state.replace('-', ' ')}" for state in STATES if state in report.counts]
    return ", ".join(found)


def state_text(device: "RolloutDevice") -> str:
    """`deploying (soaking)`, `ordered, offline`."""
    state = device.state.replace("-", " ")
    if device.state in {"ordered", "rolling-back"} and not device.online:
        return f"{state}, offline"
    return f"{state} ({device.stage.lower()})" if device.stage else state
