"""The accuracy and the speed of a written file, in real runs on its backend."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from edgeopt.bundle.deployment import Evidence
from edgeopt.bundle.plan import evidence_of
from edgeopt.data.judging.goals import Goal
from edgeopt.data.judging.metric import Judged
from edgeopt.errors import TrialError
from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.accuracy import compare_outputs, lower_bound_db
from edgeopt.graph.levels import usual_power, weak_samples
from edgeopt.measure.contender import Contender, Side, enter
from edgeopt.measure.legs import FallenError, Starter, Terms, run_legs
from edgeopt.measure.messages import Load, Memory
from edgeopt.measure.report import Verdict
from edgeopt.measure.rounds import run_rounds, slice_ms
from edgeopt.measure.schedules import PLANS, QUANTIZED
from edgeopt.measure.scoreboard import TrialLog, trial_log
from edgeopt.measure.stats import FASTER, Interval
from edgeopt.quant.measured.records import AccuracyProof
from edgeopt.quant.measured.sample_sets import ModelRuns, Outputs
from edgeopt.quant.measured.study import LayerMeasurements
from edgeopt.quant.measured.timing.configs import ExecutionConfig, OptionValue
from edgeopt.workers.host import LocalHost


@dataclass(frozen=True, slots=True)
class Judge:
    """Runs files on samples and compares their outputs with those of the source model."""

    study: LayerMeasurements
    runs: ModelRuns
    goal: Goal

    def judged(self, path: Path, config: ExecutionConfig, which: range) -> Judged:
        """Returns the result by the goal's metric; raises an EdgeoptError if the file does not run there."""
        return self.study.judge(self.goal, self.outputs(path, config, which), which)

    def proof(self, path: Path, config: ExecutionConfig, steps_back: int = 0) -> AccuracyProof:
        """Returns the accuracy of a file on the proof samples."""
        sets = self.study.sample_sets
        got = self.outputs(path, config, sets.prove)
        accuracy = compare_outputs(self.study.reference_of(sets.prove), got)
        planned = self.study.reference_of(sets.plan)
        usual = usual_power(compare_outputs(planned, planned))
        judged = self.study.judge(self.goal, got, sets.prove, usual)
        return AccuracyProof(
            len(sets.prove),
            set_aside=not (sets.use.shared or sets.use.generated),
            snr_db=accuracy.snr_db if judged.snr_db is None else judged.snr_db,
            low_db=lower_bound_db(accuracy) if judged.low_db is None else judged.low_db,
            judged=None if self.goal.is_ratio else judged,
            outputs=tuple(output.without_samples() for output in accuracy.outputs),
            steps_back=steps_back,
            tail=judged.tail,
            weak=weak_samples(accuracy, self.goal.needed, usual) if self.goal.is_ratio else None,
            weakest=judged.weakest,
        )

    def outputs(self, path: Path, config: ExecutionConfig, which: Sequence[int]) -> Outputs:
        """Returns what a file answers to the samples `which`."""
        feeds = self.study.sample_sets.feeds(which)
        return self.runs.outputs(path, config.backend, config.options, feeds)

    def met(self, proof: AccuracyProof | None) -> bool:
        """Whether a result may be delivered, by its ratio in dB or by its metric; never without a proof."""
        if proof is None:
            return False
        if proof.judged is not None:
            return self.goal.proves(proof.judged)
        return proof.snr_db > -math.inf and self.score(proof) >= self.goal.needed

    def score(self, proof: AccuracyProof | None) -> float:
        """Returns the score that decides whether the goal is met; higher is better, and -inf without a proof."""
        if proof is None:
            return -math.inf
        if proof.judged is not None:
            return self.goal.score(proof.judged)[1]
        lacks = self.goal.tail_lacks(proof.tail)
        return min(proof.low_db, self.goal.needed) - lacks if lacks else proof.low_db


PHASE = "measuring the speed"
SOURCE, FLOAT, RESULT = "source", "float", "result"
"""The sides: the source in plain ONNX Runtime, the fastest float model, and the result."""
NOT_FASTER = "not proved faster"
# Other processes can only make a slice slower, so the fastest quarter is more informative than the median.
_UNDISTURBED = 0.25
_A_PAIR = 2
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ContestSide:
    """One side of a contest: a model file on a backend with options."""

    name: str
    path: Path
    backend: str
    options: Mapping[str, OptionValue]


class Speed(msgspec.Struct, frozen=True):
    """Speedup of the first side of a contest over another side."""

    speedup: Interval
    verdict: Verdict
    first_ms: float
    """Time of one run of the first side, from the slices of the speedup; `other_ms` of the other side."""
    other_ms: float

    def evidence(self, against: str, accuracy_db: float, floor_db: float, samples: int) -> Evidence:
        """Returns the evidence of a bundle that was the first side, `against` what the other one was."""
        return evidence_of(
            FASTER if self.verdict == FASTER else NOT_FASTER,
            against,
            (self.other_ms, self.first_ms),
            self.speedup,
            accuracy_db=accuracy_db,
            floor_db=floor_db,
            samples=samples,
        )

    @property
    def order(self) -> tuple[bool, float]:
        """Sort key that puts the side that is hardest to beat first."""
        return self.verdict == "faster", self.speedup.median


@dataclass(frozen=True, slots=True)
class ContestResult:
    """Result of a contest of files, by the names of the sides."""

    speeds: Mapping[str, Speed] = field(default_factory=dict)
    """Speedup of the first side over each other side."""
    failures: Mapping[str, str] = field(default_factory=dict)
    taken: Mapping[str, TrialLog] = field(default_factory=dict)
    memory: Mapping[str, Memory] = field(default_factory=dict)
    processes: int = 0
    """The number of processes of each side, one after the other, which averages out their differences."""
    warning: str = ""


def compared(
    runners: Sequence[ContestSide], samples: Path, folder: Path, limit_s: float, emit: Emit = ignore
) -> ContestResult:
    """Compares the first side with each other one, interleaved, until it is clear whether it beats all."""
    begin_s = time.monotonic()
    if len(runners) < _A_PAIR:
        return ContestResult()
    host = LocalHost(folder)
    emit(Progress(PHASE, f"{len(runners)} interleaved", time_left_s=limit_s))
    with ExitStack() as stack:
        try:
            starter = Starter(host, [_side(host, each, samples) for each in runners], stack)
            pack = starter.first()
            run_rounds(list(pack.every), 1, _span_ms(pack.every))
            span_ms = _span_ms(pack.every)
            pack.forget()
            found = run_legs(
                *(pack, starter),
                Terms(QUANTIZED, max(QUANTIZED.legs), begin_s + limit_s, range(len(pack.others))),
                span_ms,
            )
        except FallenError as fallen:
            stack.close()
            # The remaining sides can still be compared.
            rest = [each for each in runners if each.name != fallen.name and fallen.name != runners[0].name]
            known = compared(rest, samples, folder, limit_s - (time.monotonic() - begin_s), emit)
            return replace(known, failures={**known.failures, fallen.name: fallen.message})
    return ContestResult(
        {
            each.name: Speed(decision.speedup, decision.verdict, decision.first_ms, decision.second_ms)
            for each, decision in zip(pack.others, found.decisions, strict=True)
            if decision is not None
        },
        {},
        {each.name: trial_log(each) for each in pack.every},
        {each.name: each.memory for each in pack.every if each.memory is not None},
        found.legs,
        found.warning,
    )


def with_one_float(found: ContestResult, names: Sequence[str]) -> tuple[ContestResult, str]:
    """Keeps only the float model that is hardest to beat, as FLOAT, and returns its former name too."""
    best = min((name for name in names if name in found.speeds), key=lambda k: found.speeds[k].order, default="")
    out = set(names) - {best}
    renamed = replace(
        found,
        speeds=_renamed(found.speeds, out, best),
        taken=_renamed(found.taken, out, best),
        memory=_renamed(found.memory, out, best),
    )
    return renamed, best


def _renamed(known: Mapping[str, T], out: set[str], best: str) -> dict[str, T]:
    return {FLOAT if name == best else name: each for name, each in known.items() if name not in out}


def _side(host: LocalHost, runner: ContestSide, samples: Path) -> Side:
    load = Load(runner.backend, host.put(runner.path), dict(runner.options), host.put(samples))
    return Side(runner.name, load)


def ranked(runners: Sequence[ContestSide], samples: Path, folder: Path) -> dict[int, float]:
    """Returns the undisturbed time of each side that runs, by its position, from a few interleaved rounds."""
    host = LocalHost(folder)
    with ExitStack() as stack:
        loaded: dict[int, Contender] = {}
        for place, each in enumerate(runners):
            with suppress(TrialError):
                side = _side(host, each, samples)
                loaded[place] = enter(host, side.name, side.load)
                stack.callback(loaded[place].close)
        if loaded:
            run_rounds(list(loaded.values()), PLANS.maximum, _span_ms(loaded.values()))
        return {
            place: float(np.quantile(each.slices_ms, _UNDISTURBED))
            for place, each in loaded.items()
            if each.failure is None
        }


def _span_ms(contenders: Iterable[Contender]) -> float:
    """Returns one length of slices for all sides, long enough for the slowest."""
    return slice_ms(max(each.slices_ms[-1] if each.slices_ms else each.loaded.first_run_ms for each in contenders))
