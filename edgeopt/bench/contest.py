"""The contest: contenders run time slices in turns, so that what disturbs one disturbs all.

On a noisy machine a time means little and a ratio within one round means much: each round gives every
contender one slice, in changing order, and only ratios within a round are compared.
"""

from dataclasses import dataclass, field

import msgspec
import numpy as np

from edgeopt.bench.host import Child, TrialHost
from edgeopt.bench.messages import (
    Answer,
    Failed,
    Load,
    Loaded,
    Memory,
    Outputs,
    Request,
    Saved,
    Time,
    Timed,
    decode_answer,
)
from edgeopt.bench.stats import Interval, bootstrap_median, paired_ratios
from edgeopt.errors import TrialError

# Enough runs in a slice that its median is one, within what a round may take.
_RUNS_A_SLICE = 10
_SHORTEST_SLICE_MS = 40.0
_LONGEST_SLICE_MS = 400.0
_SLOWEST_ANSWER_S = 60.0


@dataclass(slots=True)
class Contender:
    """A loaded trial that takes part, and the median latency of each of its slices."""

    name: str
    child: Child
    loaded: Loaded
    slices_ms: list[float] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    """The single latencies of the last slices, for percentiles."""
    memory: Memory | None = None
    failure: str | None = None

    def patience_s(self, runs: int) -> float:
        """How long so many runs may take before the trial counts as hung."""
        return max(_SLOWEST_ANSWER_S, 4 * runs * self.loaded.first_run_ms / 1e3)

    def close(self) -> None:
        self.child.close()


def enter(host: TrialHost, name: str, load: Load, timeout_s: float = _SLOWEST_ANSWER_S) -> Contender:
    """Starts a trial and loads its model; raises TrialError with the reason when it cannot."""
    child = host.start()
    try:
        answer = ask(child, load, timeout_s)
        if not isinstance(answer, Loaded):
            raise TrialError(f"failed: {reason(answer)}")
    except BaseException:
        child.close()
        raise
    return Contender(name, child, answer, memory=answer.memory)


def ask(child: Child, request: Request, timeout_s: float = _SLOWEST_ANSWER_S) -> Answer:
    """One request and its answer."""
    child.send(msgspec.json.encode(request))
    answer: Answer = decode_answer(child.receive(timeout_s))
    return answer


def save_outputs(contender: Contender, first: int, count: int, out_path: str, timeout_s: float) -> None:
    """Has a contender run samples and save their outputs; raises TrialError with the reason when it cannot."""
    answer = ask(contender.child, Outputs(first, count, out_path), timeout_s)
    if not isinstance(answer, Saved):
        raise TrialError(f"failed: {reason(answer)}")


def reason(answer: Answer) -> str:
    return answer.message if isinstance(answer, Failed) else f"unexpected answer {type(answer).__name__}"


def slice_ms(latency_ms: float) -> float:
    """How long a slice should be for a model that takes this long."""
    return float(np.clip(_RUNS_A_SLICE * latency_ms, _SHORTEST_SLICE_MS, _LONGEST_SLICE_MS))


def run_rounds(contenders: list[Contender], rounds: int, span_ms: float, first: int = 0) -> None:
    """Gives every contender one slice a round, in changing order; `first` is the number of the first round.

    A contender that crashes or hangs is marked with its failure and left out from then on.
    """
    for position in range(first, first + rounds):
        running = [c for c in contenders if c.failure is None]
        taken: dict[int, float] = {}
        # Each rotation once forwards and once backwards: nobody is always first or follows the same neighbour.
        shift = position // 2 % max(len(running), 1)
        order = running[shift:] + running[:shift]
        for contender in order if position % 2 == 0 else order[::-1]:
            _one_slice(contender, span_ms, taken)
        for contender in running:
            if contender.failure is None:
                contender.slices_ms.append(taken[id(contender)])


def _one_slice(contender: Contender, span_ms: float, taken: dict[int, float]) -> None:
    try:
        answer = ask(contender.child, Time(span_ms), contender.patience_s(2))
    except TrialError as error:
        contender.failure = error.message
        return
    if not isinstance(answer, Timed):
        contender.failure = f"failed: {reason(answer)}"
        return
    taken[id(contender)] = float(np.median(answer.latencies_ms))
    contender.latencies_ms = [*contender.latencies_ms, *answer.latencies_ms][-20_000:]
    contender.memory = answer.memory


def latency_ms(contender: Contender) -> float:
    """A first idea of how long a run takes, from one short slice; raises TrialError when it cannot run."""
    answer = ask(contender.child, Time(_SHORTEST_SLICE_MS), contender.patience_s(2))
    if not isinstance(answer, Timed):
        raise TrialError(f"failed: {reason(answer)}")
    return float(np.median(answer.latencies_ms))


def speedup(baseline: Contender, other: Contender) -> Interval:
    """How many times faster `other` is than `baseline`, over the rounds that both ran (the last ones)."""
    shared = min(len(baseline.slices_ms), len(other.slices_ms))
    return bootstrap_median(paired_ratios(baseline.slices_ms[-shared:], other.slices_ms[-shared:]))
