"""Outcome of a search: the winner, the baseline, and every candidate with its measurement or its reason."""

from typing import Literal

import msgspec

from edgeopt.backends.base import TensorInfo
from edgeopt.data.judging.metric import Judged
from edgeopt.events import TokenFigures
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
from edgeopt.profiles.presets import PresetChoice

SCHEMA = 2
Status = Literal["winner", "lost", "below the floor", "unproven", "over a limit", "failed", "not tried"]
Verdict = Literal["faster", "better", "picked", "undecided", "keep what you have"]
CURRENT = "current"
"""Variant name of the incumbent bundle."""
RuntimeOptions = dict[str, str | int | float | bool | dict[str, list[int]]]


class Candidate(msgspec.Struct, frozen=True):
    """Variant, the backend that runs it, the runtime options, and how it is called."""

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
        """Returns the sizes of the candidate's buckets, by dimension."""
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
    """Backends that the variant was made for; empty: all that can read it."""
    late: bool = False
    """Whether the variant was not ready in time: a longer search has it."""

    def is_of(self, candidate: Candidate) -> bool:
        """Whether the candidate runs this variant, or one that was made of it."""
        names = {candidate.variant} if candidate.variant == "source" else {candidate.variant, "cleaned"}
        return self.name in names and (not self.backends or candidate.backend in self.backends)


class CandidateReport(msgspec.Struct, frozen=True):
    candidate: Candidate
    status: Status
    reason: str
    speedup: Interval | None = None
    """Speed relative to the baseline, as all views show it: from the written bundle if that was measured,
    otherwise from the race, relative to the winner's."""
    latency_ms: float | None = None
    """Time of a run in ms: the baseline's divided by the speed-up; under load if throughput is maximized."""
    accuracy_db: float | None = None
    accuracy_low_db: float | None = None
    """Lower bound of the accuracy on other samples, by resampling."""
    load_ms: float | None = None
    memory: Memory | None = None
    size_bytes: int | None = None
    throughput_per_s: float | None = None
    """Samples per second, if throughput is maximized."""
    of_best: float | None = None
    """Speed relative to the best candidate it last ran with, if it is out because of that."""
    proved: bool = False
    """Whether the speed-up is that of the written bundle, in fresh processes."""
    proof_verdict: str = ""
    tokens: TokenFigures | None = None
    """Accuracy of the tokens, if the search judges a decoder by them."""


class SizeTimes(msgspec.Struct, frozen=True):
    """Medians of the runs of one size."""

    sizes: dict[str, int]
    """Size of each dimension, by its name."""
    baseline_ms: float
    latency_ms: float
    runs: int
    """Number of runs of the side that had fewer."""
    slower: bool = False
    """Whether the bundle is clearly slower: 3/4 of its runs took longer than 3/4 of the baseline's."""

    @property
    def name(self) -> str:
        return " ".join(f"{name}={size}" for name, size in self.sizes.items())


class GenerationProof(msgspec.Struct, frozen=True):
    """Decoding by the written bundle: in several ways, and greedily after some prompts."""

    prompts: int
    prompt_tokens: int
    texts: int
    """Number of texts that were run in each form."""
    steps: int
    """Number of tokens of each text whose logits were compared."""
    greedy_tokens: int
    lowest_db: dict[str, float]
    """Lowest agreement of a step with a full run of the text, in dB, by form: cached, chunked, padded."""
    divergences: dict[str, float]
    """Mean divergence of the steps from the source, in nats, by form."""
    loops: int
    """Number of prompts after which the generated tokens end in a loop."""
    source_loops: int
    same_tokens: int
    """Number of generated tokens before the first difference from the source's, over all prompts."""
    first_token_ms: float
    token_ms: float
    """Medians of one process, not interleaved with the source's."""
    source_first_token_ms: float
    source_token_ms: float
    same_prompts: int | None = None
    """Number of prompts after which bundle and source generate the same tokens; None: not recorded."""
    is_alone: bool = False
    """Whether the source runs several texts in a batch, and the bundle does not."""
    most_tokens: int = 0
    """Tokens that would be generated after each prompt with more time; 0: not limited by time."""


class Proof(msgspec.Struct, frozen=True):
    """Second measurement of the winner, from the written bundle, in fresh processes, on samples set aside."""

    verdict: str
    speedup: Interval
    baseline_ms: float
    latency_ms: float
    accuracy_db: float
    samples: int
    set_aside: bool
    """Whether nothing before the proof used the samples."""
    memory: Memory | None = None
    baseline_memory: Memory | None = None
    fallback: str = ""
    """Nodes of the bundle that do not run where its backend says, as a sentence; empty if all do."""
    outputs: tuple[OutputAccuracy, ...] = ()
    """Accuracy of each output, without the figures for each sample."""
    taken: TrialLog | None = None
    baseline_taken: TrialLog | None = None
    measured_while: str = ""
    """State of the device during the measurement, as a sentence."""
    judged: str = ""
    """Value of the metric with its interval, in words; empty if the floor is in dB alone."""
    metric: Judged | None = None
    """Figures of the metric, if the floor is not in dB alone."""
    generated: bool = False
    """Whether the samples were generated, because no data was given."""
    is_shown: bool = True
    """Whether the samples show that the goal is met on others too; False if the user accepted less."""
    current: Interval | None = None
    """Speed relative to the incumbent, if one was given."""
    current_verdict: str = ""
    figure: float | None = None
    """Objective of the bundle and of the baseline, if it is not latency."""
    baseline_figure: float | None = None
    baseline_calls: Calls = ONE
    """Callers and batch size of the baseline in the comparison."""
    less: Interval | None = None
    """Ratio of the objective, if it was measured interleaved too."""
    by_size: tuple[SizeTimes, ...] = ()
    """Times of each size, if open dimensions have several sizes."""
    met: bool = True
    """Whether the accuracy on these samples is inside the budget."""
    tail: Tail | None = None
    """Accuracy of the worst sample, and of the worst tenth of the samples."""
    weakest: LevelAccuracy | None = None
    """Level that decides if the samples have several levels: `accuracy_db` is the lowest of all levels."""
    generation: GenerationProof | None = None
    """Proof of decoding, for a decoder with a cache."""
    legs: int = 0
    """Number of fresh processes, over which differences between processes average out; 0: not recorded."""


class Outcome(NotebookRecord, msgspec.Struct, frozen=True):
    model: str
    model_digest: str
    bundle: str
    target: str
    verdict: Verdict
    """`faster`, or for another objective better by that and not slower; or `picked` by the user.

    Undecided: nothing is proved, and a longer search or a quieter device may prove something.
    """
    summary: str
    """Verdict in words, and what was found."""
    floor_db: float
    """Accuracy floor in dB; 0 if only another metric counts, see `goal`."""
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
    """Accuracy goal as a sentence, if it is more than the floor in dB."""
    front: tuple[str, ...] = ()
    """Names of the candidates that no other one beats in latency, accuracy, memory and size together."""
    cut_short: str = ""
    """Time and phase of an early stop, as a sentence; empty if the search came to its end."""
    from_cache: str = ""
    """Time of the measurement, if nothing was measured now."""
    is_cached: bool = False
    """Whether the cache has the outcome, so that another of its candidates can be picked."""
    device: Device | None = None
    """Device that the outcome was measured on, without the sources of its facts."""
    operators: dict[str, int] = {}
    """Number of nodes of each operator in the source model."""
    found: str = ""
    """Summary without the words for the verdict, if it begins with them."""
    undecided: tuple[str, ...] = ()
    """Reasons why the verdict is undecided, each without a full stop."""
    preset: PresetChoice | None = None
    imported: ImportProof | None = None
    """Import proof of the source model, if `edgeopt import` made it."""
    original: OriginalSpeed | None = None
    """Speed of the original, if the model was imported from another framework."""
    encoder: "Outcome | None" = None
    """Outcome of the encoder's search, for the decoder of a speech model."""
    schema: int = SCHEMA


def rival(outcome: Outcome) -> Candidate:
    """Returns the baseline, called as in the comparison with the bundle."""
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
    """Returns the candidates as tables list them: the winner, then those that lost, the fastest first, then the
    others.

    Where one was picked, they stay as the search had them, so that their numbers still hold.
    """
    if outcome.verdict == "picked":
        return list(outcome.candidates)

    def place(report: CandidateReport) -> tuple[int, float]:
        return _RANKS.get(report.status, len(_RANKS)), -(report.speedup.median if report.speedup else 0.0)

    return sorted(outcome.candidates, key=place)
