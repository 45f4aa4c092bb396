"""The outcome of a search as the page shows it, beside the sentences that all views share."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from edgeopt.graph.accuracy import EQUAL_DB
from edgeopt.measure.stats import with_open_ends
from edgeopt.pipeline.outcome import CURRENT, CandidateReport, Outcome
from edgeopt.views.words import ago, change, decibels, milliseconds, size

UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Compared:
    """One line of the comparison: what, in the source model, in the bundle, and the change."""

    what: str
    before: str
    after: str
    change: str


def read_result(data: dict[str, Any]) -> Outcome:
    """Raises `msgspec.ValidationError` if it is not the outcome of a search."""
    return msgspec.convert(with_open_ends(data), Outcome)


def can_be_delivered(report: CandidateReport) -> bool:
    """Instead of the winner: it ran, and is inside all that was asked for."""
    return report.status == "lost" and report.candidate.variant != CURRENT


def source_peak(result: Outcome) -> int | None:
    memory = result.proof.baseline_memory
    return memory.peak_bytes if memory else None


def condition(result: Outcome, now: datetime) -> str:
    """Why measuring again may be worth it: it was measured before, or cut short; "" for a whole search of now."""
    if not result.from_cache:
        return f"{result.cut_short} Search again to continue from the cache." if result.cut_short else ""
    try:
        then = datetime.fromisoformat(result.from_cache)
    except ValueError:
        return f"Measured at {result.from_cache}; nothing was measured now."
    return f"Measured {ago((now - then).total_seconds())}; nothing was measured now."


def comparison(result: Outcome) -> tuple[Compared, ...]:
    proof = result.proof
    before, after = source_peak(result), proof.memory.peak_bytes if proof.memory else None
    # By the proved speed: medians of all runs would give another ratio.
    bundle_ms = proof.baseline_ms / proof.speedup.median if proof.speedup.median > 0 else proof.latency_ms
    accuracy = "the same outputs" if proof.accuracy_db >= EQUAL_DB else decibels(proof.accuracy_db)
    rows = [
        (
            "Latency",
            milliseconds(proof.baseline_ms),
            milliseconds(bundle_ms),
            change(proof.baseline_ms, bundle_ms),
        ),
        ("Peak memory", *map(size, (before, after)), change(before, after)),
    ]
    if result.winner == result.baseline:
        rows = [(what, "", was, UNCHANGED) for what, was, _, _ in rows]
    return (*(Compared(*row) for row in rows), Compared("Accuracy", "reference", accuracy, _floor(result)))


def _floor(result: Outcome) -> str:
    floor = f"floor {result.floor_db:g} dB" if result.floor_db else "no floor in dB"
    tail = result.proof.tail
    return floor if tail is None else f"{floor}\nlowest sample {decibels(tail.lowest_db)}"
