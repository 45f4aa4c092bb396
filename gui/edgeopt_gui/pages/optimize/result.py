"""The outcome of a search as the command line tells it, and what the page says about it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from edgeopt import units
from edgeopt.graph.accuracy import EQUAL_DB
from edgeopt.graph.levels import LevelAccuracy, Tail
from edgeopt.pipeline.objectives import OBJECTIVES
from edgeopt.pipeline.outcome import CURRENT, Candidate, Status, VariantReport
from edgeopt.units import count
from edgeopt_gui.pages.optimize.choices import LATENCY
from edgeopt_gui.pages.optimize.words import accuracy, ago, change, memory, milliseconds, short_name, times

UNCHANGED = "unchanged"


class Interval(msgspec.Struct, frozen=True):
    """As in the core, but an end that is not finite arrives as null."""

    median: float
    low: float | None = None
    high: float | None = None
    rounds: int = 0
    confidence: float = 0.95


class Memory(msgspec.Struct, frozen=True):
    peak_bytes: int | None = None


class Report(msgspec.Struct, frozen=True):
    candidate: Candidate
    status: Status
    reason: str
    speedup: Interval | None = None
    latency_ms: float | None = None
    accuracy_db: float | None = None
    memory: Memory | None = None
    size_bytes: int | None = None
    of_best: float | None = None
    """Its speed as a share of that of the best, where it is out for that."""
    proved: bool = False
    """The speed-up is that of the written bundle, in fresh processes."""

    @property
    def can_be_delivered(self) -> bool:
        """Instead of the winner: it ran, and is inside all that was asked for."""
        return self.status == "lost" and self.candidate.variant != CURRENT


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
    judged: str = ""
    """What the user's own metric says."""
    measured_while: str = ""
    """What the device did meanwhile, as a sentence."""
    figure: float | None = None
    """The objective of the bundle and of the source model, if it is not latency."""
    baseline_figure: float | None = None
    tail: Tail | None = None
    """The lowest sample, and the worst tenth of them."""
    weakest: LevelAccuracy | None = None
    """Of samples of several levels of input, that which decides."""

    @property
    def bundle_ms(self) -> float:
        """A run of the bundle, by the proved speed: medians of all runs would give another ratio."""
        return self.baseline_ms / self.speedup.median if self.speedup.median > 0 else self.latency_ms

    @property
    def peak_bytes(self) -> int | None:
        return self.memory.peak_bytes if self.memory else None


class Result(msgspec.Struct, frozen=True):
    """What the page reads of `edgeopt.pipeline.outcome.Outcome`."""

    model: str
    bundle: str
    target: str
    verdict: str
    """`faster`, `better`, `picked`, `undecided` or `keep what you have`."""
    summary: str
    floor_db: float
    winner: Candidate
    baseline: Candidate
    proof: Proof
    variants: tuple[VariantReport, ...]
    candidates: tuple[Report, ...]
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    objective: str = "latency"
    goal: str = ""
    """What the accuracy must be, where that is more than the floor in dB."""
    front: tuple[str, ...] = ()
    """The names of the candidates that no other one beats in latency, accuracy, memory and size together."""
    cut_short: str = ""
    """When the search was stopped early, as a sentence."""
    from_cache: str = ""
    """When it was measured, where nothing was measured now."""
    is_cached: bool = False
    """The cache has it, so that another of its candidates can be picked."""
    found: str = ""
    """The summary without the words for the verdict, where it begins with them."""

    undecided: tuple[str, ...] = ()
    """Why it is undecided, each without a full stop."""

    @property
    def kept(self) -> bool:
        return self.verdict in {"keep what you have", "undecided"}

    @property
    def unchanged(self) -> bool:
        """The bundle has the source model itself."""
        return self.winner == self.baseline

    @property
    def source_peak(self) -> int | None:
        memory = self.proof.baseline_memory
        return memory.peak_bytes if memory else None

    @property
    def why_it_won(self) -> str:
        """Where another one looked faster in the race; "" otherwise."""
        winner = next((each for each in self.candidates if each.candidate == self.winner), None)
        own = winner.speedup.median if winner is not None and winner.speedup is not None else 0.0
        lost = [(each.speedup.median, each) for each in self.candidates if each.can_be_delivered and each.speedup]
        faster = [pair for pair in lost if pair[0] > own]
        if not faster:
            return ""
        speed, best = max(faster, key=lambda pair: pair[0])
        return (
            f"proved {times(self.proof.speedup.median)}; {short_name(best.candidate.name)} had {times(speed)} "
            f"in the race, but was rejected: {best.reason}"
        )

    @property
    def budget(self) -> str:
        return self.goal or f"{self.floor_db:g} dB"


@dataclass(frozen=True, slots=True)
class Compared:
    """One line of the comparison: what, in the source model, in the bundle, and the change."""

    what: str
    before: str
    after: str
    change: str


def read_result(data: dict[str, Any]) -> Result:
    """Raises `msgspec.ValidationError` if it is not the outcome of a search."""
    return msgspec.convert(data, Result)


def headline(result: Result) -> str:
    speed = times(result.proof.speedup.median)
    figures = _figures(result)
    match result.verdict:
        case "undecided":
            return "Undecided"
        case "keep what you have":
            return "Keep what you have"
        case "better" | "faster" if figures is not None:
            return f"{figures[1]} instead of {figures[0]}"
        case "picked":
            return f"{speed} the speed, as picked"
    return f"{speed} faster"


def explanation(result: Result) -> str:
    """The verdict in one sentence, or two where it is to keep the model."""
    proof = result.proof
    if result.verdict == "undecided":
        why = _capitalized("; ".join(result.undecided))
        return (
            f"{why}. A longer search or a quieter device may decide it. The bundle contains your model unchanged."
        )
    if result.kept and result.winner.variant == CURRENT:
        return (
            f"Nothing was proved better than what runs today within {result.budget}. The bundle is a copy of it."
        )
    if result.kept and result.objective == LATENCY:
        return (
            f"Nothing was proved faster than your model on this device within {result.budget}. "
            "The bundle contains it unchanged, with the measurements."
        )
    if result.kept:  # the headline says so
        return _capitalized(result.found or result.summary)
    if result.verdict != "faster" or result.objective != LATENCY:
        return result.found or result.summary
    return (
        f"{short_name(result.winner.name)} takes {milliseconds(proof.bundle_ms)} where "
        f"{short_name(result.baseline.name)} takes {milliseconds(proof.baseline_ms)}."
    )


def proof_line(result: Result) -> str:
    """What the verdict rests on."""
    proof, speedup = result.proof, result.proof.speedup
    said = "Measured" if result.kept else "Proved"
    how = f"{said} from the written bundle over {speedup.rounds} interleaved rounds: {_interval(speedup)}"
    samples = f"checked on {count(proof.samples, 'sample')}{' set aside until then' if proof.set_aside else ''}"
    how = f"{how}, {speedup.confidence:.1%} confidence"
    if result.unchanged:
        how = "The bundle runs your model unchanged"
    weakest = proof.weakest.sentence.rstrip(".") if proof.weakest is not None else ""
    where = f"target {result.target}"
    parts = [how, samples, weakest, proof.judged, where, f"{result.seconds:.0f} s"]
    parts.append(proof.measured_while.rstrip("."))
    return " · ".join(part for part in parts if part)


def condition(result: Result, now: datetime) -> str:
    """Why measuring again may be worth it: it was measured before, or cut short; "" for a whole search of now."""
    if not result.from_cache:
        return f"{result.cut_short} Search again to continue from the cache." if result.cut_short else ""
    try:
        then = datetime.fromisoformat(result.from_cache)
    except ValueError:
        return f"Measured at {result.from_cache}; nothing was measured now."
    return f"Measured {ago((now - then).total_seconds())}; nothing was measured now."


def _figures(result: Result) -> tuple[str, str] | None:
    """Of the objective, in its unit: of the source model and of the bundle; None where the race decides."""
    objective = next((each for each in OBJECTIVES if each.name == result.objective), None)
    before, after = result.proof.baseline_figure, result.proof.figure
    if objective is None or before is None or after is None:
        return None
    return objective.shown(before), objective.shown(after)


def comparison(result: Result) -> tuple[Compared, ...]:
    proof = result.proof
    before, after = result.source_peak, proof.peak_bytes
    near = proof.accuracy_db is not None and proof.accuracy_db >= EQUAL_DB
    latency = Compared(
        "Latency",
        milliseconds(proof.baseline_ms),
        milliseconds(proof.bundle_ms),
        change(proof.baseline_ms, proof.bundle_ms),
    )
    peak = Compared("Peak memory", memory(before), memory(after), change(before, after))
    if result.unchanged:
        latency = Compared("Latency", "", milliseconds(proof.baseline_ms), UNCHANGED)
        peak = Compared("Peak memory", "", memory(before), UNCHANGED)
    return (
        latency,
        peak,
        Compared(
            "Accuracy",
            "reference",
            "the same outputs" if near else accuracy(proof.accuracy_db),
            _floor(result),
        ),
    )


def _floor(result: Result) -> str:
    floor = f"floor {result.floor_db:g} dB" if result.floor_db else "no floor in dB"
    tail = result.proof.tail
    return floor if tail is None else f"{floor}\nlowest sample {accuracy(tail.lowest_db)}"


def _interval(speedup: Interval) -> str:
    if not units.usable_interval(speedup.low, speedup.high):
        return units.NO_INTERVAL
    return f"{times(speedup.low)} to {times(speedup.high)}"


def _capitalized(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
