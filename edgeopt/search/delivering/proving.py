"""Measures a bundle as it was written, in fresh processes, against the baseline and what runs today."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.backends.strictness import fallback
from edgeopt.bench.calls import ONE, Calls
from edgeopt.bench.contender import Contender, Side
from edgeopt.bench.instruments.machine_state import sentence
from edgeopt.bench.legs import Starter, run_legs
from edgeopt.bench.messages import Load
from edgeopt.bench.rounds import run_rounds, slice_ms
from edgeopt.bench.sequential import Decision
from edgeopt.bench.stats import FASTER, Interval, paired_ratios, sign_interval
from edgeopt.bench.taken import taken_by
from edgeopt.bench.trial import rotated
from edgeopt.bundle import write
from edgeopt.events import Progress
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.weak_samples import weak_samples
from edgeopt.processing.golden import put_processing_golden
from edgeopt.search.delivering.legs import terms_of
from edgeopt.search.delivering.report import deployment_of
from edgeopt.search.delivering.steps import record_of
from edgeopt.search.field import Field
from edgeopt.search.outcome import Candidate, Proof
from edgeopt.search.prepare import Search
from edgeopt.search.racing.aims import figure_of
from edgeopt.search.racing.energy import meter_all
from edgeopt.search.racing.reference import judge_for
from edgeopt.search.racing.screen import outputs_of
from edgeopt.search.shapes.by_size import times_by_size

_GOLDEN_SAMPLES = 4
_METERED_ROUNDS = 11
# What a meter saw of a run is told with this confidence.
_CONFIDENCE = 1 - 0.05 / 18


class Judged(NamedTuple):
    speedup: Interval
    verdict: str


@dataclass(frozen=True, slots=True)
class Proved:
    """What was measured, and what both sides answered to the samples that prove."""

    proof: Proof
    reference: Sequence[dict[str, Array]]
    outputs: Sequence[dict[str, Array]]


def prove(search: Search, field: Field, candidate: Candidate, folder: Path, legs: int) -> Proof:
    """Writes the bundle in a hidden folder and measures what was written, with golden samples from that."""
    search.emit(Progress("proving", f"the written bundle: {candidate.name}"))
    files, described = _model_files(search, field, candidate), deployment_of(search, field, candidate)
    if search.attached is not None:
        search.attached.put(folder)
    write.fill(folder, files, described, {}, record_of(field, candidate))
    size_bytes = sum(file.stat().st_size for file in files.values())
    found = measured(search, folder, size_bytes, legs, _current(search), candidate.calls)
    put_golden(search, folder, found)
    return found.proof


def put_golden(search: Search, folder: Path, found: Proved) -> None:
    """Writes the first of the samples that proved it, and what was answered to them."""
    first, places = search.course.split.prove_first, golden_places(search.course.split.prove_count)
    write.write_golden(folder, "inputs", [search.samples.feeds(first + k) for k in places])
    write.write_golden(folder, "outputs", [found.outputs[k] for k in places])
    write.write_golden(folder, "reference", [found.reference[k] for k in places])
    if search.attached is not None:
        raw = [search.raw.feeds(first + k) for k in places] if search.raw is not None else []
        unchecked = put_processing_golden(
            folder, search.attached.processing, raw, [found.outputs[k] for k in places]
        )
        if unchecked and unchecked not in search.warnings:
            search.warn(unchecked)


def golden_places(count: int) -> list[int]:
    """A few of the samples that proved, from first to last: made-up ones begin with the ordinary."""
    golden = min(count, _GOLDEN_SAMPLES)
    return [round(k * (count - 1) / max(golden - 1, 1)) for k in range(golden)]


def measured(
    search: Search,
    folder: Path,
    size_bytes: int,
    legs: int,
    current: Path | None = None,
    calls: Calls | None = None,
) -> Proved:
    """A bundle against the baseline, and against what runs today, in so many legs at most.

    All are called alike; the baseline besides as it gives most, where that is in another way. TrialError where one
    of them falls.
    """
    own = search.baseline.calls
    calls = own if calls is None else calls
    course, model = search.course, search.settings.model
    samples = course.host.put(course.samples_path)
    ways = tuple(dict.fromkeys((calls, own)))

    def side(name: str, backend: str, path: Path, how: Calls) -> Side:
        load = Load(backend, course.host.put(path), {}, samples, batch=how.batch)
        return Side(name, load, concurrency=how.callers)

    every = [
        side("bundle", "bundle", folder, calls),
        *(side("baseline", search.baseline.backend, model, how) for how in ways),
        *(side("current", "bundle", current, how) for how in _ways_of_today(search, calls) if current),
    ]

    with ExitStack() as stack:
        starter = Starter(course.host, every, stack, course.by_sample)
        pack = starter.first()
        bundle, old = pack.first, pack.others[0]
        first, count = course.split.prove_first, course.split.prove_count
        with judge_for(course, old, search.baseline.backend, model) as judge:
            reference = outputs_of(course, judge, first, count, 1)
        outputs = outputs_of(course, bundle, first, count)
        # A batch is what was raced; those who send one sample get an answer as good.
        single = outputs if calls.batch == 1 else outputs_of(course, bundle, first, count, 1)
        accuracy = compare_outputs(reference, outputs)
        goal = course.goal
        labels, levels = course.labels_of(first, count), course.levels_of(first, count)
        judged = goal.judge(outputs, reference, labels, levels)
        weak = weak_samples(accuracy, goal.needed) if goal.is_ratio else None
        # The first round warms all up together and is not counted.
        run_rounds(list(pack.every), 1, slice_ms(old.loaded.first_run_ms))
        span_ms = slice_ms(old.run_ms) if old.slices_ms else slice_ms(1.0)
        if search.meter is not None:
            meter_all(search, [old, bundle], _METERED_ROUNDS)
        pack.forget()
        terms = terms_of(search, legs, len(ways), len(pack.others) - len(ways))
        found = run_legs(pack, starter, terms, span_ms)
        if found.warning:
            search.tell(found.warning)
        if weak is not None and weak.warning not in search.warnings:
            search.warn(weak.warning)
        answers = [goal.judge(each, reference, labels, levels) for each in (outputs, single)]
        met = all(goal.score(each)[0] >= goal.needed for each in answers)
        faced = list(zip(pack.others, found.decisions, strict=True))
        old, against = _hardest(faced[: len(ways)])
        against_today = _hardest(faced[len(ways) :])[1] if current else None
        proof = Proof(
            against.verdict,
            against.speedup,
            _run_ms(old),
            _run_ms(bundle),
            accuracy.snr_db if judged.snr_db is None else judged.snr_db,
            count,
            course.split.calibration_count > 0,
            bundle.memory,
            old.memory,
            fallback(bundle.loaded.placement) or "",
            tuple(output.without_samples() for output in accuracy.outputs),
            taken_by(bundle),
            taken_by(old),
            sentence(found.states),
            figure=_throughput(bundle) if course.by_sample else figure_of(search, bundle, size_bytes),
            baseline_figure=_throughput(old)
            if course.by_sample
            else figure_of(search, old, search.facts.size_bytes),
            current=against_today.speedup if against_today else None,
            current_verdict=against_today.verdict if against_today else "",
            less=_less(old, bundle) if search.meter is not None else None,
            baseline_calls=Calls(old.concurrency, old.batch),
            by_size=times_by_size(search.shaped if calls == ONE else None, old, bundle, rotated(search.samples)),
            met=met,
            legs=found.processes,
            judged="" if goal.is_ratio else f"{goal.title} {goal.shown(judged.value)}",
            weakest=judged.weakest,
        )
        return Proved(proof, reference, single)


def _current(search: Search) -> Path | None:
    return None if search.current is None else search.current.folder


def _hardest(faced: Sequence[tuple[Contender, Decision | None]]) -> tuple[Contender, Judged]:
    """The one that comes nearest, and what is said of it: that it is faster only if it is faster than each."""
    known = [(each, decision) for each, decision in faced if decision is not None]
    nearest, found = min(known, key=lambda pair: pair[1].speedup.median)
    said = found.verdict
    if said == FASTER:
        said = next((each.verdict for _, each in known if each.verdict != FASTER), said)
    return nearest, Judged(found.speedup, said)


def _ways_of_today(search: Search, calls: Calls) -> list[Calls]:
    """As the candidate is called, and as it was proved itself, where that was for throughput."""
    proved = search.current.deployment.evidence if search.current is not None else None
    own = (
        [Calls(proved.load.callers, proved.load.batch)]
        if search.course.by_sample and proved and proved.load
        else []
    )
    return list(dict.fromkeys([calls, *own]))


def _less(old: Contender, new: Contender) -> Interval | None:
    """How many times less energy; None where the meter gave out."""
    if not old.joules or len(old.joules) != len(new.joules):
        return None
    return sign_interval(paired_ratios(old.joules, new.joules), _CONFIDENCE)


def _run_ms(contender: Contender) -> float:
    return float(np.median(contender.latencies_ms if contender.by_sample else contender.slices_ms))


def _throughput(contender: Contender) -> float:
    return 1e3 / float(np.median(contender.slices_ms))


def _model_files(search: Search, field: Field, candidate: Candidate) -> dict[str, Path]:
    path = field.path_of(candidate)
    if candidate.variant == "source":
        return {path.name: path, **{name: path.parent / name for name in search.facts.external}}
    return {file.name: file for file in path.parent.iterdir() if file.is_file()}
