"""The outcome of a search as the page shows it, beside the sentences that all views share."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from edgeopt.data.levels import Alike
from edgeopt.decoding import thread_safe
from edgeopt.graph.accuracy import EQUAL_DB
from edgeopt.measure.messages import Memory
from edgeopt.measure.stats import with_open_ends
from edgeopt.pipeline.objectives import FIRST_TOKEN, TOKENS_PER_SECOND
from edgeopt.pipeline.outcome import CURRENT, CandidateReport, Outcome
from edgeopt.views.outcome import explanation, headline, proof_lines
from edgeopt.views.words import (
    MEMORY,
    UNKNOWN,
    ago,
    change,
    decibels,
    memory,
    memory_change,
    memory_parts,
    milliseconds,
)
from edgeopt.views.words import accuracy as accuracy_text
from edgeopt_gui.plots.ticks import significant

UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Compared:
    """One line of the comparison: what, in the source model, in the bundle, and the change."""

    what: str
    before: str
    after: str
    change: str

    @property
    def against(self) -> str:
        """`20.0 MiB; source model 22.0 MiB`."""
        return f"{self.after}; source model {self.before}" if self.before else self.after


def read_result(data: dict[str, Any]) -> Outcome:
    """Raises `msgspec.ValidationError` if it is not the outcome of a search."""
    return msgspec.convert(with_open_ends(data), thread_safe(Outcome))


def can_be_delivered(report: CandidateReport) -> bool:
    """Whether a candidate can be delivered instead of the winner: it raced and met all conditions, but lost."""
    return report.status == "lost" and report.candidate.variant != CURRENT


# The built-in sample has similar pictures on purpose, so its warning does not limit the verdict.
_SAMPLE_LEVELS = Alike("image", 0.36, 0.55)


def headline_of(result: Outcome) -> str:
    """Returns the verdict in a few words; that of a speech model names both parts."""
    if result.encoder is None:
        return headline(result)
    decoder, encoder = (f"{each[:1].lower()}{each[1:]}" for each in map(headline, (result, result.encoder)))
    return f"Decoder: {decoder}; encoder: {encoder}"


def explanation_of(result: Outcome) -> str:
    if result.encoder is None:
        return explanation(result)
    return f"Decoder: {explanation(result)}\nEncoder: {explanation(result.encoder)}"


def proof_of(result: Outcome) -> str:
    """Returns what the verdict rests on, a paragraph for each part of a speech model."""
    if result.encoder is None:
        return " ".join(proof_lines(result))
    return f"Decoder: {' '.join(proof_lines(result))}\nEncoder: {' '.join(proof_lines(result.encoder))}"


def limits(result: Outcome) -> tuple[str, ...]:
    """Returns the warnings that limit the verdict; the tab Warnings shows all."""
    encoder = () if result.encoder is None else result.encoder.warnings
    found = (*result.warnings, *(f"Encoder: {each}" for each in encoder))
    return tuple(each for each in found if each != _SAMPLE_LEVELS.warning)


def condition(result: Outcome, now: datetime) -> str:
    """Returns why measuring again may help: a cached result or a search cut short; "" for a full new search."""
    if not result.from_cache:
        return f"{result.cut_short} Search again to continue from the cache." if result.cut_short else ""
    try:
        then = datetime.fromisoformat(result.from_cache)
    except ValueError:
        return f"Measured at {result.from_cache}; nothing was measured now."
    return f"Measured {ago((now - then).total_seconds())}; nothing was measured now."


def comparison(result: Outcome) -> tuple[Compared, ...]:
    proof = result.proof
    before, after = proof.baseline_memory, proof.memory
    # Computed from the proved speed-up: the medians of all runs would give another ratio.
    bundle_ms = proof.baseline_ms / proof.speedup.median if proof.speedup.median > 0 else proof.latency_ms
    tokens = proof.metric.token_figures if proof.metric is not None else None
    accuracy = "the same outputs" if proof.accuracy_db >= EQUAL_DB else decibels(proof.accuracy_db)
    what, times = "Latency", (milliseconds(proof.baseline_ms), milliseconds(bundle_ms))
    moved = change(proof.baseline_ms, bundle_ms)
    if result.objective == TOKENS_PER_SECOND and bundle_ms > 0:
        what, moved = "Tokens per second", change(bundle_ms, proof.baseline_ms)
        times = (f"{significant(1e3 / proof.baseline_ms)}", f"{significant(1e3 / bundle_ms)}")
    elif result.objective == FIRST_TOKEN:
        what = "First token"
    rows = [(what, *times, moved), (MEMORY, *_memory(before, after))]
    if result.winner == result.baseline:
        rows = [(what, "", times[0], UNCHANGED), (MEMORY, "", memory(before), UNCHANGED)]
    judged = Compared("Accuracy", "reference", accuracy, _floor(result))
    if tokens is not None:
        top1 = f"[{100 * tokens.top1_low:.3g} {100 * tokens.top1_high:.3g}]"
        kl = f"[{tokens.kl_low:.2g} {tokens.kl_high:.2g}]"
        judged = Compared(
            "Divergence and top-1", "reference", accuracy_text(None, tokens), f"intervals {kl}, {top1} %"
        )
    return (*(Compared(*row) for row in rows), judged)


def _memory(before: Memory | None, after: Memory | None) -> tuple[str, str, str]:
    """Returns memory before and after, and the change with the process's memory below, for lack of room."""
    (was, _), (added, whole) = memory_parts(before), memory_parts(after)
    return was, added or whole or UNKNOWN, f"{memory_change(before, after)}\n{whole}" if added else ""


def _floor(result: Outcome) -> str:
    floor = f"floor {result.floor_db:g} dB" if result.floor_db else "no floor in dB"
    tail = result.proof.tail
    return floor if tail is None else f"{floor}\nlowest sample {decibels(tail.lowest_db)}"
