"""Measures a bundle as it was written, in fresh processes, against the baseline and what runs today."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.backends.strictness import fallback
from edgeopt.bench.calls import ONE, Calls
from edgeopt.bench.contender import Contender, enter
from edgeopt.bench.instruments.machine_state import StateSampler, sentence
from edgeopt.bench.messages import Load
from edgeopt.bench.report import RoundState
from edgeopt.bench.rounds import run_rounds, slice_ms
from edgeopt.bench.stats import FASTER, NO_DIFFERENCE, SAME, Interval, paired_ratios, sign_interval, verdict
from edgeopt.bench.taken import taken_by
from edgeopt.bench.trial import rotated
from edgeopt.bundle import write
from edgeopt.errors import TrialError
from edgeopt.events import Progress
from edgeopt.graph.verify import compare_outputs
from edgeopt.processing.golden import put_processing_golden
from edgeopt.search import stopping
from edgeopt.search.delivering.legs import Sides, unsteady
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

# Enough pairs for an interval that means something, few enough for a search of a minute; as many again while it is
# not clear: for the best candidate up to twelve times, for each of the three behind it up to two times. When four
# in a row fail their proof, something other than the candidate is wrong.
PROOF_ROUNDS = 11
LOOKS = (12, 2, 2, 2)
# After so many looks, what two processes of one model differ by is not waited for: it may never be clear.
_PATIENT = 6
# One false "faster" in forty searches at most, however often it looked and however many candidates it tried.
_CONFIDENCE = 1 - 2 * 0.025 / sum(LOOKS)
_GOLDEN_SAMPLES = 4


@dataclass(frozen=True, slots=True)
class Proved:
    """What was measured, and what both sides answered to the samples that prove."""

    proof: Proof
    reference: Sequence[dict[str, Array]]
    outputs: Sequence[dict[str, Array]]


def prove(search: Search, field: Field, candidate: Candidate, folder: Path, looks: int) -> Proof:
    """Writes the bundle in a hidden folder and measures what was written, with golden samples from that."""
    search.emit(Progress("proving", f"the written bundle: {candidate.name}"))
    files, described = _model_files(search, field, candidate), deployment_of(search, field, candidate)
    if search.attached is not None:
        search.attached.put(folder)
    write.fill(folder, files, described, {}, record_of(field, candidate))
    size_bytes = sum(file.stat().st_size for file in files.values())
    found = measured(search, folder, size_bytes, looks, _current(search), candidate.calls)
    put_golden(search, folder, found)
    return found.proof


def put_golden(search: Search, folder: Path, found: Proved) -> None:
    """Writes the first of the samples that proved it, and what was answered to them."""
    first, golden = search.course.split.prove_first, min(search.course.split.prove_count, _GOLDEN_SAMPLES)
    write.write_golden(folder, "inputs", [search.samples.feeds(first + k) for k in range(golden)])
    write.write_golden(folder, "outputs", found.outputs[:golden])
    write.write_golden(folder, "reference", found.reference[:golden])
    if search.attached is not None:
        raw = [search.raw.feeds(first + k) for k in range(golden)] if search.raw is not None else []
        unchecked = put_processing_golden(folder, search.attached.processing, raw, found.outputs[:golden])
        if unchecked and unchecked not in search.warnings:
            search.warn(unchecked)


def measured(
    search: Search,
    folder: Path,
    size_bytes: int,
    looks: int,
    current: Path | None = None,
    calls: Calls | None = None,
) -> Proved:
    """A bundle against the baseline, and against what runs today; TrialError where one of them falls.

    All are called alike; the baseline besides as it gives most, where that is in another way.
    """
    own = search.baseline.calls
    calls = own if calls is None else calls
    course, model = search.course, search.settings.model
    samples = course.host.put(course.samples_path)

    def start(stack: ExitStack) -> Sides:
        def enter_as(name: str, backend: str, path: Path, how: Calls) -> Contender:
            load = Load(backend, course.host.put(path), {}, samples, batch=how.batch)
            contender = enter(course.host, name, load, concurrency=how.callers)
            contender.by_sample = course.by_sample
            stack.callback(contender.close)
            return contender

        bundle = enter_as("bundle", "bundle", folder, calls)
        ways = dict.fromkeys((calls, own))
        rivals = [enter_as("baseline", search.baseline.backend, model, how) for how in ways]
        today = (
            [enter_as("current", "bundle", current, how) for how in _ways_of_today(search, calls)]
            if current
            else []
        )
        return Sides(bundle, tuple(rivals), tuple(today))

    with ExitStack() as stack:
        sides = start(stack)
        bundle, rivals, today = sides.bundle, sides.rivals, sides.today
        old = rivals[0]
        first, count = course.split.prove_first, course.split.prove_count
        with judge_for(course, old, search.baseline.backend, model) as judge:
            reference = outputs_of(course, judge, first, count, 1)
        outputs = outputs_of(course, bundle, first, count)
        accuracy = compare_outputs(reference, outputs)
        goal = course.goal
        labels = course.labels_of(first, count)
        judged = goal.judge(outputs, reference, labels)
        # The first round warms all up together and is not counted.
        run_rounds(list(sides.every), 1, slice_ms(old.loaded.first_run_ms))
        span_ms = slice_ms(old.run_ms) if old.slices_ms else slice_ms(1.0)
        sides.forget()
        states = _run(search, sides, span_ms, looks)
        faster = [each for each in sides.others if verdict(_ratio(each, bundle)) == FASTER]
        doubts = unsteady(search, sides, faster, start, PROOF_ROUNDS, span_ms)
        memory, less = bundle.memory, None
        if search.meter is not None:
            meter_all(search, [old, bundle], PROOF_ROUNDS)
            less = _less(old, bundle)
        # A batch is what was raced; those who send one sample get an answer as good.
        single = outputs if calls.batch == 1 else outputs_of(course, bundle, first, count, 1)
        met = all(goal.score(goal.judge(each, reference, labels))[0] >= goal.needed for each in (outputs, single))
        old, ratio, said = _hardest(rivals, bundle, doubts)
        against_today, verdict_today = _hardest(today, bundle, doubts)[1:] if today else (None, "")
        proof = Proof(
            said,
            ratio,
            _run_ms(old),
            _run_ms(bundle),
            accuracy.snr_db,
            count,
            course.split.calibration_count > 0,
            memory,
            old.memory,
            fallback(bundle.loaded.placement) or "",
            tuple(output.without_samples() for output in accuracy.outputs),
            taken_by(bundle),
            taken_by(old),
            sentence(states),
            figure=_throughput(bundle) if course.by_sample else figure_of(search, bundle, size_bytes),
            baseline_figure=_throughput(old)
            if course.by_sample
            else figure_of(search, old, search.facts.size_bytes),
            current=against_today,
            current_verdict=verdict_today,
            less=less,
            baseline_calls=Calls(old.concurrency, old.batch),
            by_size=times_by_size(search.shaped if calls == ONE else None, old, bundle, rotated(search.samples)),
            met=met,
            judged="" if goal.is_ratio else f"{goal.title} {goal.shown(judged.value)}",
        )
        return Proved(proof, reference, single)


def _current(search: Search) -> Path | None:
    return None if search.current is None else search.current.folder


def _run(search: Search, sides: Sides, span_ms: float, looks: int) -> list[RoundState]:
    """Rounds, and more of them while an answer is not clear and there is time; the device's state in each.

    Raises TrialError when one falls.
    """
    sampler = StateSampler(lambda: ())
    states: list[RoundState] = []
    for look in range(looks):
        for place in range(PROOF_ROUNDS):
            if search.stop.is_set():
                stopping.tell(search)
            sampler.begin_round(len(states))
            run_rounds(list(sides.every), 1, span_ms, first=place)
            states.append(sampler.end_round())
        if failure := sides.fallen():
            raise TrialError(failure)
        settled = is_settled([_ratio(other, sides.bundle) for other in sides.others], look + 1)
        short = search.stop.is_set() and look + 1 >= stopping.LOOKS[0]
        if settled or short or time.monotonic() >= search.until(1.0):
            break
    return states


def is_settled(ratios: Sequence[Interval], looks: int) -> bool:
    """Whether every answer is clear by now, or the least of them is too little to go on for."""
    if all(verdict(ratio) != NO_DIFFERENCE for ratio in ratios):
        return True
    return looks >= _PATIENT and min(ratio.median for ratio in ratios) < SAME


def _hardest(
    rivals: Sequence[Contender], new: Contender, doubts: Sequence[Contender]
) -> tuple[Contender, Interval, str]:
    """The one that comes nearest, the ratio to it, and the verdict: it must be faster than each."""
    ratios = [_ratio(each, new) for each in rivals]
    nearest = min(range(len(rivals)), key=lambda place: ratios[place].median)
    verdicts = [verdict(ratio) for ratio in ratios]
    for place, each in enumerate(rivals):
        if verdicts[place] == FASTER and any(each is one for one in doubts):
            verdicts[place] = NO_DIFFERENCE
    said = verdicts[nearest]
    if said == FASTER:
        said = next((each for each in verdicts if each != FASTER), said)
    return rivals[nearest], ratios[nearest], said


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


def _ratio(old: Contender, new: Contender) -> Interval:
    return sign_interval(paired_ratios(old.slices_ms, new.slices_ms), _CONFIDENCE)


def _model_files(search: Search, field: Field, candidate: Candidate) -> dict[str, Path]:
    path = field.path_of(candidate)
    if candidate.variant == "source":
        return {path.name: path, **{name: path.parent / name for name in search.facts.external}}
    return {file.name: file for file in path.parent.iterdir() if file.is_file()}
