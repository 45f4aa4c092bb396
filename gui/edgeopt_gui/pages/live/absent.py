"""Texts of the page Live while it has no curves to show."""

from typing import NamedTuple

from edgeopt_gui.subject import Subject


class Nothing(NamedTuple):
    sentence: str
    action: str
    """Key of the action to offer."""
    other: str = ""
    """Key of another action to offer; "" for none."""


def nothing_of(url: str, subject: Subject | None) -> Nothing:
    """Returns the empty state for an agent's address ("" for this machine) and the subject to watch."""
    if url:
        return Nothing(f"Not watching the agent at {url}.", "live.start", "live.disconnect")
    if subject is not None:
        return Nothing(
            f"Run {subject.name} repeatedly and watch its latency, memory and load.",
            "live.start",
            "live.connect",
        )
    return Nothing(
        "Open a model or a bundle to watch it run, or connect to an agent.", "app.open-model", "live.connect"
    )


def awaited(url: str, phase: str, name: str) -> str:
    """Returns a sentence about the work before the first sample."""
    what = f"Connecting to the agent at {url}" if url else phase or f"Starting {name}"
    return f"{what}…"
