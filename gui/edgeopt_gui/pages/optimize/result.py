"""The outcome of a search as the command line tells it, and what the page says about it."""

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from edgeopt.graph.accuracy import EQUAL_DB
from edgeopt.graph.ledger import LedgerEntry
from edgeopt.search.outcome import Candidate
from edgeopt_gui.pages.optimize.words import accuracy, change, memory, milliseconds, short_name, times
from edgeopt_gui.units import count


class Interval(msgspec.Struct, frozen=True):
    """As in the core, but an end that is not finite arrives as null."""

    median: float
    low: float | None = None
    high: float | None = None
    rounds: int = 0
    confidence: float = 0.95


class Memory(msgspec.Struct, frozen=True):
    peak_bytes: int | None = None


class Variant(msgspec.Struct, frozen=True):
    name: str
    title: str
    failure: str | None = None
    ledger: tuple[LedgerEntry, ...] = ()
    backends: tuple[str, ...] = ()
    """Those that it was made for alone; empty: all that read it."""


class Report(msgspec.Struct, frozen=True):
    candidate: Candidate
    status: Literal["winner", "lost", "below the floor", "over a limit", "failed", "not tried"]
    reason: str
    speedup: Interval | None = None
    latency_ms: float | None = None
    accuracy_db: float | None = None


class Proof(msgspec.Struct, frozen=True):
    verdict: str
    speedup: Interval
    baseline_ms: float
    latency_ms: float
    samples: int
    set_aside: bool
    accuracy_db: float | None = None
    memory: Memory | None = None
    baseline_memory: Memory | None = None


class Result(msgspec.Struct, frozen=True):
    """What the page reads of `edgeopt.search.outcome.Outcome`."""

    model: str
    bundle: str
    target: str
    verdict: Literal["faster", "better", "picked", "keep what you have"]
    summary: str
    floor_db: float
    winner: Candidate
    baseline: Candidate
    proof: Proof
    variants: tuple[Variant, ...]
    candidates: tuple[Report, ...]
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def faster(self) -> bool:
        return self.verdict == "faster"


@dataclass(frozen=True, slots=True)
class Compared:
    """One line of the comparison: what, in the source model, in the bundle, and the change."""

    what: str
    before: str
    after: str
    change: str


def read_result(data: dict[str, Any]) -> Result:
    """Raises `msgspec.ValidationError` for what is no outcome of a search."""
    return msgspec.convert(data, Result)


def headline(result: Result) -> str:
    return f"{times(result.proof.speedup.median)} faster" if result.faster else "Keep what you have"


def explanation(result: Result) -> str:
    """The verdict in one sentence, or two where it is to keep the model."""
    proof = result.proof
    if not result.faster:
        return (
            "Your model is already as fast on this device as anything that could be proved inside "
            f"{result.floor_db:g} dB. The bundle holds it unchanged, with what was measured."
        )
    return (
        f"{short_name(result.winner.name)} takes {milliseconds(proof.latency_ms)} where "
        f"{short_name(result.baseline.name)} takes {milliseconds(proof.baseline_ms)}."
    )


def proof_line(result: Result) -> str:
    """What the verdict rests on."""
    proof, speedup = result.proof, result.proof.speedup
    said = "Proved" if result.faster else "Measured"
    how = f"{said} from the written bundle over {speedup.rounds} rounds in turns: {_interval(speedup)}"
    samples = f"checked on {count(proof.samples, 'sample')}{' set aside until then' if proof.set_aside else ''}"
    sure = f"{speedup.confidence:.1%} confidence"
    parts = [f"{how}, {sure}", samples, f"target {result.target}", f"{result.seconds:.0f} s"]
    return " · ".join(parts)


def comparison(result: Result) -> tuple[Compared, ...]:
    proof = result.proof
    before = proof.baseline_memory.peak_bytes if proof.baseline_memory else None
    after = proof.memory.peak_bytes if proof.memory else None
    near = proof.accuracy_db is not None and proof.accuracy_db >= EQUAL_DB
    return (
        Compared(
            "Latency",
            milliseconds(proof.baseline_ms),
            milliseconds(proof.latency_ms),
            change(proof.baseline_ms, proof.latency_ms),
        ),
        Compared("Peak memory", memory(before), memory(after), change(before, after)),
        Compared(
            "Accuracy",
            "reference",
            "the same outputs" if near else accuracy(proof.accuracy_db),
            f"floor {result.floor_db:g} dB",
        ),
    )


def _interval(speedup: Interval) -> str:
    if speedup.low is None or speedup.high is None:
        return f"{times(speedup.median)}, too few rounds for an interval"
    return f"{times(speedup.low)} to {times(speedup.high)}"
