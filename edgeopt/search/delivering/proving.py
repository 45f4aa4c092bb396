"""Measures a bundle as it was written, in fresh processes, against the baseline and what runs today."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from edgeopt.backends.strictness import fallback
from edgeopt.bench.calls import ONE, Calls
from edgeopt.bench.contender import Contender, Side
from edgeopt.bench.instruments.energy import EnergyMeter
from edgeopt.bench.instruments.machine_state import sentence
from edgeopt.bench.legs import Found, Pack, Starter, run_legs
from edgeopt.bench.rounds import run_rounds, slice_ms
from edgeopt.bench.sequential import Decision
from edgeopt.bench.stats import FASTER, Interval, paired_ratios, sign_interval
from edgeopt.bench.taken import taken_by
from edgeopt.bench.trial import rotated
from edgeopt.bundle.read import Bundle
from edgeopt.data import Samples
from edgeopt.graph.accuracy import Accuracy
from edgeopt.graph.verify import compare_outputs
from edgeopt.graph.weak_samples import weak_samples
from edgeopt.judging.judged import Judged
from edgeopt.search.delivering.legs import terms_of
from edgeopt.search.notes import Notes
from edgeopt.search.objectives import Objective
from edgeopt.search.outcome import Candidate, Proof
from edgeopt.search.racing.baseline import judge_for
from edgeopt.search.racing.energy import meter_all
from edgeopt.search.racing.ground import Ground, outputs_of
from edgeopt.search.racing.standard import Answers, Standard
from edgeopt.search.shapes.by_size import times_by_size
from edgeopt.search.shapes.sized import Shaped
from edgeopt.search.stopping import Ending

_METERED_ROUNDS = 11
# What a meter saw of a run is told with this confidence.
_CONFIDENCE = 1 - 0.05 / 18


@dataclass(frozen=True, slots=True)
class Proving:
    """What a bundle is held against, on which samples, and for how long."""

    ground: Ground
    standard: Standard
    objective: Objective
    model: Path
    size_bytes: int
    """Of the source model."""
    baseline: Candidate
    today: Bundle | None
    """What runs today, where that is to be outrun, too."""
    samples: Samples
    shaped: Shaped | None
    meter: EnergyMeter | None
    ending: Ending
    notes: Notes


class Written(NamedTuple):
    """A bundle that is to be proved."""

    folder: Path
    size_bytes: int
    """Of its model with all that belongs to that."""
    calls: Calls = ONE


class Answered(NamedTuple):
    """What was answered to the samples that prove, and how good that is."""

    reference: Answers
    single: Answers
    """By the bundle, one sample at a time."""
    accuracy: Accuracy
    judged: Judged
    met: bool


@dataclass(frozen=True, slots=True)
class Proved:
    """What was measured, and what both sides answered to the samples that prove."""

    proof: Proof
    reference: Answers
    outputs: Answers


class _Faced(NamedTuple):
    """A way to run another side, and what is said of the bundle against that side."""

    contender: Contender
    speedup: Interval
    verdict: str


def measured(proving: Proving, bundle: Written, legs: int) -> Proved:
    """A bundle against the baseline, and against what runs today, in so many legs at most.

    All are called alike; the baseline besides as it gives most, where that is in another way. TrialError where one
    of them falls.
    """
    ways = tuple(dict.fromkeys((bundle.calls, proving.baseline.calls)))
    with ExitStack() as stack:
        sides = [*_sides(proving, bundle, ways)]
        starter = Starter(proving.ground.host, sides, stack, proving.objective.by_sample)
        pack = starter.first()
        answered = _answered(proving, pack, bundle.calls.batch)
        found = _raced(proving, pack, starter, legs, len(ways))
        _note(proving, found, answered)
        faced = list(zip(pack.others, found.decisions, strict=True))
        against = _hardest(faced[: len(ways)])
        today = _hardest(faced[len(ways) :]) if proving.today is not None else None
        proof = _proof(proving, bundle, pack.first, against, today, answered, found)
        return Proved(proof, answered.reference, answered.single)


def _sides(proving: Proving, bundle: Written, ways: Sequence[Calls]) -> Sequence[Side]:
    """The bundle, then the ways to run the baseline, then those to run what runs today."""

    def side(name: str, backend: str, path: Path, how: Calls) -> Side:
        return Side(name, proving.ground.load(backend, path, batch=how.batch), concurrency=how.callers)

    sides = [side("bundle", "bundle", bundle.folder, bundle.calls)]
    sides += [side("baseline", proving.baseline.backend, proving.model, how) for how in ways]
    if proving.today is not None:
        folder, known = proving.today.folder, _ways_of_today(proving.today, proving.objective)
        sides += [side("current", "bundle", folder, how) for how in dict.fromkeys((bundle.calls, *known))]
    return sides


def _ways_of_today(today: Bundle, objective: Objective) -> Sequence[Calls]:
    """As it was proved itself, where that was for throughput."""
    proved = today.deployment.evidence
    load = proved.load if proved is not None and objective.by_sample else None
    return [Calls(load.callers, load.batch)] if load is not None else []


def _answered(proving: Proving, pack: Pack, batch: int) -> Answered:
    folder, standard, which = proving.ground.folder, proving.standard, proving.standard.split.prove
    first, count = which.start, len(which)
    with judge_for(proving.ground, pack.others[0], proving.baseline.backend, proving.model) as judge:
        reference = outputs_of(folder, judge, first, count, 1)
    outputs = outputs_of(folder, pack.first, first, count)
    # A batch is what was raced; those who send one sample get an answer as good.
    single = outputs if batch == 1 else outputs_of(folder, pack.first, first, count, 1)
    judged = standard.judge(which, outputs, reference)
    every = [judged] if single is outputs else [judged, standard.judge(which, single, reference)]
    met = all(standard.goal.score(each)[0] >= standard.goal.needed for each in every)
    return Answered(reference, single, compare_outputs(reference, outputs), judged, met)


def _raced(proving: Proving, pack: Pack, starter: Starter, legs: int, ways: int) -> Found:
    """In legs of fresh processes; the first `ways` of the others are the baseline's."""
    old = pack.others[0]
    # The first round warms all up together and is not counted.
    run_rounds(list(pack.every), 1, slice_ms(old.loaded.first_run_ms))
    span_ms = slice_ms(old.run_ms) if old.slices_ms else slice_ms(1.0)
    if proving.meter is not None:
        meter_all(proving.meter, [old, pack.first], proving.notes.emit, _METERED_ROUNDS)
    pack.forget()
    terms = terms_of(proving.objective, proving.ending, legs, ways, len(pack.others) - ways)
    return run_legs(pack, starter, terms, span_ms)


def _note(proving: Proving, found: Found, answered: Answered) -> None:
    goal = proving.standard.goal
    if found.warning:
        proving.notes.tell(found.warning)
    weak = weak_samples(answered.accuracy, goal.needed) if goal.is_ratio else None
    proving.notes.warn_once(weak.warning if weak is not None else "")


def _proof(
    proving: Proving,
    bundle: Written,
    new: Contender,
    against: _Faced,
    today: _Faced | None,
    answered: Answered,
    found: Found,
) -> Proof:
    old, objective, goal = against.contender, proving.objective, proving.standard.goal
    accuracy, judged = answered.accuracy, answered.judged
    shaped = proving.shaped if bundle.calls == ONE else None
    return Proof(
        verdict=against.verdict,
        speedup=against.speedup,
        baseline_ms=_run_ms(old),
        latency_ms=_run_ms(new),
        accuracy_db=accuracy.snr_db if judged.snr_db is None else judged.snr_db,
        samples=proving.standard.split.prove_count,
        set_aside=proving.standard.split.calibration_count > 0,
        memory=new.memory,
        baseline_memory=old.memory,
        fallback=fallback(new.loaded.placement) or "",
        outputs=tuple(output.without_samples() for output in accuracy.outputs),
        taken=taken_by(new),
        baseline_taken=taken_by(old),
        measured_while=sentence(found.states),
        judged="" if goal.is_ratio else f"{goal.title} {goal.shown(judged.value)}",
        current=today.speedup if today else None,
        current_verdict=today.verdict if today else "",
        figure=_figure(objective, new, bundle.size_bytes),
        baseline_figure=_figure(objective, old, proving.size_bytes),
        baseline_calls=Calls(old.concurrency, old.batch),
        less=_less(old, new) if proving.meter is not None else None,
        by_size=times_by_size(shaped, old, new, rotated(proving.samples)),
        met=answered.met,
        weakest=judged.weakest,
        legs=found.processes,
    )


def _hardest(faced: Sequence[tuple[Contender, Decision | None]]) -> _Faced:
    """The one that comes nearest, and what is said of it: that it is faster only if it is faster than each."""
    known = [(each, decision) for each, decision in faced if decision is not None]
    nearest, found = min(known, key=lambda pair: pair[1].speedup.median)
    said = found.verdict
    if said == FASTER:
        said = next((each.verdict for _, each in known if each.verdict != FASTER), said)
    return _Faced(nearest, found.speedup, said)


def _figure(objective: Objective, contender: Contender, size_bytes: int) -> float | None:
    if objective.by_sample:
        return 1e3 / float(np.median(contender.slices_ms))
    return objective.figure_of(contender, size_bytes)


def _less(old: Contender, new: Contender) -> Interval | None:
    """How many times less energy; None where the meter gave out."""
    if not old.joules or len(old.joules) != len(new.joules):
        return None
    return sign_interval(paired_ratios(old.joules, new.joules), _CONFIDENCE)


def _run_ms(contender: Contender) -> float:
    return float(np.median(contender.latencies_ms if contender.by_sample else contender.slices_ms))
