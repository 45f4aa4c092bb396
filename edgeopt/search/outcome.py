"""What a search found: the winner, the baseline, and every candidate with its measurement or its reason."""

from typing import Literal

import msgspec

from edgeopt.backends.base import TensorInfo
from edgeopt.bench.messages import Memory
from edgeopt.bench.stats import Interval
from edgeopt.bench.taken import Taken
from edgeopt.graph.accuracy import OutputAccuracy
from edgeopt.graph.ledger import LedgerEntry
from edgeopt.hw.device import Device

SCHEMA = 1
Status = Literal["winner", "lost", "below the floor", "over a limit", "failed", "not tried"]
CURRENT = "current"
"""In place of a variant: the bundle that runs today."""
RuntimeOptions = dict[str, str | int | float | bool | dict[str, list[int]]]


class Candidate(msgspec.Struct, frozen=True):
    """A variant, the backend that runs it, and the runtime options."""

    variant: str
    backend: str
    options: RuntimeOptions = {}

    @property
    def name(self) -> str:
        shown = [f"{k}={v}" for k, v in self.options.items() if not isinstance(v, dict)]
        return " · ".join([self.variant, self.backend, *shown])


class VariantReport(msgspec.Struct, frozen=True):
    name: str
    title: str
    size_bytes: int | None = None
    seconds: float = 0.0
    failure: str | None = None
    ledger: tuple[LedgerEntry, ...] = ()
    backends: tuple[str, ...] = ()
    """Those that it was made for alone; empty: all that read it."""

    def is_of(self, candidate: Candidate) -> bool:
        """The candidate runs it, or what was made of it."""
        wanted = {candidate.variant} if candidate.variant == "source" else {candidate.variant, "cleaned"}
        return self.name in wanted and (not self.backends or candidate.backend in self.backends)


class CandidateReport(msgspec.Struct, frozen=True):
    candidate: Candidate
    status: Status
    reason: str
    speedup: Interval | None = None
    latency_ms: float | None = None
    accuracy_db: float | None = None
    accuracy_low_db: float | None = None
    """What resampling says the accuracy may be on other samples (lower bound)."""
    load_ms: float | None = None
    memory: Memory | None = None
    size_bytes: int | None = None


class Proof(msgspec.Struct, frozen=True):
    """The winner measured again, from the written bundle, in fresh processes, on samples set aside."""

    verdict: str
    speedup: Interval
    baseline_ms: float
    latency_ms: float
    accuracy_db: float
    samples: int
    set_aside: bool
    """Nothing before the proof had seen the samples."""
    memory: Memory | None = None
    baseline_memory: Memory | None = None
    fallback: str = ""
    """Which nodes of the bundle do not run where its backend says, as a sentence; empty where all do."""
    outputs: tuple[OutputAccuracy, ...] = ()
    """Without their figures for each sample."""
    taken: Taken | None = None
    baseline_taken: Taken | None = None
    measured_while: str = ""
    """What the device did meanwhile, as a sentence."""
    judged: str = ""
    """What the user's own metric says of them; empty where the floor is in dB alone."""
    current: Interval | None = None
    """How many times as fast as what runs today, where that was given."""
    current_verdict: str = ""
    figure: float | None = None
    """Of the objective, where that is not latency: of the bundle, and of the baseline."""
    baseline_figure: float | None = None
    met: bool = True
    """It is inside the accuracy budget on these samples."""


class Outcome(msgspec.Struct, frozen=True):
    model: str
    model_digest: str
    bundle: str
    target: str
    verdict: Literal["faster", "better", "picked", "keep what you have"]
    """Faster; or, where the objective is another, better by that and not slower; or what the user picked."""
    summary: str
    floor_db: float
    """0 where only another metric counts; see `goal`."""
    winner: Candidate
    baseline: Candidate
    proof: Proof
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    variants: tuple[VariantReport, ...]
    candidates: tuple[CandidateReport, ...]
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    objective: str = "latency"
    goal: str = ""
    """What the accuracy must be, as a sentence, where that is more than the floor in dB."""
    from_cache: str = ""
    """When it was measured, where nothing was measured now."""
    device: Device | None = None
    """The one that it was measured on, without the sources of its facts."""
    operators: dict[str, int] = {}
    """Of the source model, how often each occurs."""
    schema: int = SCHEMA


_RANKS: dict[Status, int] = {"winner": 0, "lost": 1, "below the floor": 2, "over a limit": 3, "failed": 4}


def in_order(outcome: Outcome) -> list[CandidateReport]:
    """The candidates as tables list them: the winner, then those that lost, the fastest first, then the others."""

    def place(report: CandidateReport) -> tuple[int, float]:
        return _RANKS.get(report.status, len(_RANKS)), -(report.speedup.median if report.speedup else 0.0)

    return sorted(outcome.candidates, key=place)
