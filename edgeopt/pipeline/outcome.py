"""What a search found: the winner, the baseline, and every candidate with its measurement or its reason."""

from typing import Literal

import msgspec

from edgeopt.backends.base import TensorInfo
from edgeopt.data.judging.metric import Judged
from edgeopt.graph.accuracy import OutputAccuracy
from edgeopt.graph.import_proof import ImportProof
from edgeopt.graph.ledger import LedgerEntry
from edgeopt.graph.levels import LevelAccuracy, Tail
from edgeopt.hw.device import Device
from edgeopt.measure.messages import ONE, Calls, Memory
from edgeopt.measure.report import OriginalSpeed
from edgeopt.measure.scoreboard import TrialLog
from edgeopt.measure.stats import Interval
from edgeopt.notebook import NotebookRecord
from edgeopt.pipeline.shapes.sized import SizeTimes
from edgeopt.profiles.presets import PresetChoice

SCHEMA = 2
Status = Literal["winner", "lost", "below the floor", "unproven", "over a limit", "failed", "not tried"]
Verdict = Literal["faster", "better", "picked", "undecided", "keep what you have"]
CURRENT = "current"
"""The incumbent bundle, instead of a variant."""
RuntimeOptions = dict[str, str | int | float | bool | dict[str, list[int]]]


class Candidate(msgspec.Struct, frozen=True):
    """A variant, the backend that runs it, the runtime options, and how it is called."""

    variant: str
    backend: str
    options: RuntimeOptions = {}
    calls: Calls = ONE

    @property
    def name(self) -> str:
        shown = [f"{k}={v}" for k, v in self.options.items() if not isinstance(v, dict)]
        called = [] if self.calls == ONE else [str(self.calls)]
        return " · ".join([self.variant, self.backend, *shown, *called, *self.sizes])

    @property
    def sizes(self) -> list[str]:
        """Of its buckets, by dimension."""
        found = self.options.get("buckets", {})
        return [f"{n}={','.join(map(str, of))}" for n, of in found.items()] if isinstance(found, dict) else []


class VariantReport(msgspec.Struct, frozen=True):
    name: str
    title: str
    size_bytes: int | None = None
    seconds: float = 0.0
    failure: str | None = None
    ledger: tuple[LedgerEntry, ...] = ()
    backends: tuple[str, ...] = ()
    """Those that it was made for alone; empty: all that read it."""
    late: bool = False
    """Not ready in time: a longer search has it."""

    def is_of(self, candidate: Candidate) -> bool:
        """The candidate runs it, or what was made of it."""
        wanted = {candidate.variant} if candidate.variant == "source" else {candidate.variant, "cleaned"}
        return self.name in wanted and (not self.backends or candidate.backend in self.backends)


class CandidateReport(msgspec.Struct, frozen=True):
    candidate: Candidate
    status: Status
    reason: str
    speedup: Interval | None = None
    """How many times as fast as the baseline: the one figure that every view shows. From the written bundle where
    that was measured, otherwise from the race, relative to the winner's."""
    latency_ms: float | None = None
    """The baseline's time divided by the speed-up; of a run under load where throughput is maximized."""
    accuracy_db: float | None = None
    accuracy_low_db: float | None = None
    """What resampling says the accuracy may be on other samples (lower bound)."""
    load_ms: float | None = None
    memory: Memory | None = None
    size_bytes: int | None = None
    throughput_per_s: float | None = None
    """Samples a second, if throughput is maximized."""
    of_best: float | None = None
    """Its speed as a share of that of the best it ran with last, where it is out for that."""
    proved: bool = False
    """The speed-up is that of the written bundle, in fresh processes."""
    proof_verdict: str = ""


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
    taken: TrialLog | None = None
    baseline_taken: TrialLog | None = None
    measured_while: str = ""
    """What the device did meanwhile, as a sentence."""
    judged: str = ""
    """Value of the metric with its interval, in words; empty where the floor is in dB alone."""
    metric: Judged | None = None
    """Figures of the metric, where the floor is not in dB alone."""
    is_shown: bool = True
    """Whether the samples show that the goal is met on others too; false where the user accepted less."""
    current: Interval | None = None
    """How many times as fast as what runs today, where that was given."""
    current_verdict: str = ""
    figure: float | None = None
    """The objective of the bundle and of the baseline, if it is not latency."""
    baseline_figure: float | None = None
    baseline_calls: Calls = ONE
    """How the baseline of the comparison was called."""
    less: Interval | None = None
    """The ratio of the objective, if it was measured interleaved too."""
    by_size: tuple[SizeTimes, ...] = ()
    """Where open dimensions have several sizes."""
    met: bool = True
    """It is inside the accuracy budget on these samples."""
    tail: Tail | None = None
    """The lowest sample, and the worst tenth of them."""
    weakest: LevelAccuracy | None = None
    """Of samples of several levels, that which decides: `accuracy_db` is the lowest of all levels."""
    legs: int = 0
    """The number of fresh processes, over which the luck of a process averages out. 0: not recorded."""


class Outcome(NotebookRecord, msgspec.Struct, frozen=True):
    model: str
    model_digest: str
    bundle: str
    target: str
    verdict: Verdict
    """Faster; or, where the objective is another, better by that and not slower; or what the user picked.

    Undecided: nothing is proved, and a longer search or a quieter device may prove something.
    """
    summary: str
    """The verdict in words, and what was found."""
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
    front: tuple[str, ...] = ()
    """The names of the candidates that no other one beats in latency, accuracy, memory and size together."""
    cut_short: str = ""
    """When and where the search was stopped before its time, as a sentence; empty for one that came to its end."""
    from_cache: str = ""
    """When it was measured, where nothing was measured now."""
    is_cached: bool = False
    """The cache has it, so that another of its candidates can be picked."""
    device: Device | None = None
    """The one that it was measured on, without the sources of its facts."""
    operators: dict[str, int] = {}
    """Of the source model, how often each occurs."""
    found: str = ""
    """The summary without the words for the verdict, where it begins with them."""
    undecided: tuple[str, ...] = ()
    """Why it is undecided, each without a full stop."""
    preset: PresetChoice | None = None
    imported: ImportProof | None = None
    """Of the source model, where `edgeopt import` made it."""
    original: OriginalSpeed | None = None
    """Where the model was imported from another framework."""
    schema: int = SCHEMA


def rival(outcome: Outcome) -> Candidate:
    """The baseline, called as in the comparison with the bundle."""
    return msgspec.structs.replace(outcome.baseline, calls=outcome.proof.baseline_calls)


_RANKS: dict[Status, int] = {
    "winner": 0,
    "lost": 1,
    "unproven": 2,
    "below the floor": 3,
    "over a limit": 4,
    "failed": 5,
}


def in_order(outcome: Outcome) -> list[CandidateReport]:
    """The candidates as tables list them: the winner, then those that lost, the fastest first, then the others.

    Where one was picked, they stay as the search had them, so that their numbers still hold.
    """
    if outcome.verdict == "picked":
        return list(outcome.candidates)

    def place(report: CandidateReport) -> tuple[int, float]:
        return _RANKS.get(report.status, len(_RANKS)), -(report.speedup.median if report.speedup else 0.0)

    return sorted(outcome.candidates, key=place)
