"""What a search found: the winner, the baseline, and every candidate with its measurement or its reason."""

from typing import Literal

import msgspec

from edgeopt.backends.base import TensorInfo
from edgeopt.bench.messages import Memory
from edgeopt.bench.stats import Interval
from edgeopt.graph.ledger import LedgerEntry

SCHEMA = 1
Status = Literal["winner", "lost", "below the floor", "failed", "not tried"]
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


class Outcome(msgspec.Struct, frozen=True):
    model: str
    model_digest: str
    bundle: str
    target: str
    verdict: Literal["faster", "keep what you have"]
    summary: str
    floor_db: float
    winner: Candidate
    baseline: Candidate
    proof: Proof
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    variants: tuple[VariantReport, ...]
    candidates: tuple[CandidateReport, ...]
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    schema: int = SCHEMA
