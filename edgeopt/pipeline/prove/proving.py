"""Measurement of a written bundle in fresh processes, against the baseline and the incumbent."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from edgeopt.backends.base import fallback
from edgeopt.backends.plugin import plugin_of
from edgeopt.bundle import write
from edgeopt.bundle.golden import put_processing_golden
from edgeopt.bundle.plan import Plan
from edgeopt.bundle.read import Bundle
from edgeopt.data.judging.goals import EVIDENCE_LEVELS, EvidenceLevel
from edgeopt.data.judging.metric import Judged
from edgeopt.errors import TrialError
from edgeopt.events import Progress
from edgeopt.graph.accuracy import Accuracy, compare_outputs
from edgeopt.graph.levels import weak_samples
from edgeopt.measure.contender import Contender, Side
from edgeopt.measure.instruments.machine_state import StateSampler, sentence
from edgeopt.measure.legs import Found, ProcessGroup, Starter, Terms, leg_slice_ms, run_legs, shortest_seconds
from edgeopt.measure.messages import ONE, Calls, Load
from edgeopt.measure.rounds import DeviceWatch, run_rounds, run_slices, slice_ms
from edgeopt.measure.schedules import ALONE, METERED_PROOF, PROOF
from edgeopt.measure.scoreboard import trial_log
from edgeopt.measure.sequential import Decision, Pairs, rules_of
from edgeopt.measure.stats import FASTER, IDENTICAL, TOO_FEW, UNITY, paired_ratios, sign_interval
from edgeopt.measure.trial import rotated
from edgeopt.pipeline.baseline import judge_for
from edgeopt.pipeline.builders.variants import Variants
from edgeopt.pipeline.context import SearchResources
from edgeopt.pipeline.decoder.generation import prove_generation
from edgeopt.pipeline.decoder.workloads import GOLDEN_STEPS
from edgeopt.pipeline.inspect import Search
from edgeopt.pipeline.notes import SearchNotes
from edgeopt.pipeline.objectives import FIRST_TOKEN, Objective
from edgeopt.pipeline.outcome import Candidate, GenerationProof, Proof
from edgeopt.pipeline.prove.report import plan_of
from edgeopt.pipeline.prove.unseen import check_unseen
from edgeopt.pipeline.race.race import meter_all
from edgeopt.pipeline.runner import Answers, TrialRunner
from edgeopt.pipeline.screen import CandidatePool
from edgeopt.pipeline.shapes.sized import times_by_size
from edgeopt.pipeline.stopping import StopControl


def terms_of(objective: Objective, ending: StopControl, maximum: int, rivals: int, incumbents: int) -> Terms:
    """Returns the terms of a proof against `rivals` ways to run the baseline, `incumbents` the incumbent."""

    def is_stopped() -> bool:
        if ending.is_stopping:
            ending.announce()
        return ending.is_stopping

    alone = bool(incumbents) and objective.figure is None
    required = range(rivals if alone else 0, rivals + incumbents)
    return Terms(PROOF, maximum, ending.proofs_end_s, required, is_stopped)


def put_golden(search: Search, folder: Path, found: "ProofRun", notes: SearchNotes) -> None:
    """Writes a few of the samples that prove, with the outputs of bundle and source, one sample at a time."""
    data, attached = search.data, search.attached
    last = data.split.prove_count - 1
    each = (data.samples.feeds(data.split.prove_first + last), found.outputs[last], found.reference[last])
    maximum = write.max_golden(sum(array.nbytes for arrays in each for array in arrays.values()))
    places = write.golden_places(data.split.prove_count, maximum)
    if data.decoder is not None:
        places = [last - k for k in reversed(range(min(GOLDEN_STEPS, maximum)))]
    rows = [data.split.prove_first + k for k in places]
    answered = [found.outputs[k] for k in places]
    inputs = [data.samples.feeds(row) for row in rows]
    write.write_golden_runs(folder, inputs, answered, [found.reference[k] for k in places])
    if attached is not None:
        raw = [data.raw.feeds(row) for row in rows] if data.raw is not None else []
        notes.warn_once(put_processing_golden(folder, attached.processing, raw, answered))


# The confidence of reported meter readings.
_CONFIDENCE = 1 - 0.05 / 18


class BundleDraft(NamedTuple):
    """Written bundle that is to be proved."""

    folder: Path
    size_bytes: int
    """Size of the model with all files that belong to it."""
    calls: Calls = ONE
    plan: Plan | None = None
    """Plan of the bundle; None for the incumbent."""


@contextmanager
def written(pool: CandidatePool, candidate: Candidate) -> Iterator[BundleDraft]:
    """Writes the bundle of a candidate to a hidden folder, which is removed afterwards unless it was published."""
    search = pool.search
    files = _model_files(search, pool.variants, candidate)
    size_bytes = sum(file.stat().st_size for file in files.values())
    plan = plan_of(search, pool.variants, candidate)
    pool.resources.emit(Progress("proving", f"the written bundle: {candidate.name}"))
    with write.draft(search.request.out) as folder:
        if search.attached is not None:
            search.attached.put(folder)
        write.put_text(folder, search.request.model)
        write.fill(folder, files, plan.deployment(search.device), {}, plan.record)
        yield BundleDraft(folder, size_bytes, candidate.calls, plan)


def _model_files(search: Search, variants: Variants, candidate: Candidate) -> dict[str, Path]:
    path = variants.path(candidate.variant, candidate.backend)
    if candidate.variant == "source":
        return {path.name: path, **{name: path.parent / name for name in search.facts.external}}
    return {file.name: file for file in path.parent.iterdir() if file.is_file()}


class ProofOutputs(NamedTuple):
    """Outputs for the samples that prove, and their accuracy."""

    reference: Answers
    single: Answers
    """Outputs of the bundle, one sample at a time."""
    accuracy: Accuracy
    judged: Judged
    evidence: EvidenceLevel
    met: bool


class MissedFloor(Exception):  # noqa: N818 - a result, not an error of the program
    """Bundle below the floor on the samples that prove, whatever its speed; the message has the accuracy."""


class UnprovenFloor(Exception):  # noqa: N818 - a result too
    """Bundle that keeps to the goal on the samples that prove, which are too few to show it for others."""


@dataclass(frozen=True, slots=True)
class ProofRun:
    """Measurements of a proof, and the outputs of both sides for the samples that prove."""

    proof: Proof
    reference: Answers
    outputs: Answers


class _Faced(NamedTuple):
    """Way to run another side, and the verdict on the bundle against that side."""

    contender: Contender
    decision: Decision
    verdict: str


def measured(
    search: Search, means: SearchResources, bundle: BundleDraft, legs: int, *, whatever_floor: bool = False
) -> ProofRun:
    """Proves a bundle against the baseline and against the incumbent, in at most this many legs.

    All are called alike; the baseline also in its best way, if that differs. Raises TrialError if one of them
    fails, and MissedFloor or UnprovenFloor, before the legs, if the bundle is not shown to be accurate.
    """
    ways = tuple(dict.fromkeys((bundle.calls, search.baseline.calls)))
    means.ending.begin_proof()
    with ExitStack() as stack:
        sides = [*_sides(search, means.runner, bundle, ways)]
        starter = Starter(means.runner.host, sides, stack, search.objective.by_sample)
        pack = starter.first()
        answered = _answered(search, means.runner, pack, bundle.calls.batch)
        if not (answered.met or whatever_floor):
            if answered.evidence == "not shown":
                raise UnprovenFloor(search.reference.goal.describe_unproven(answered.judged))
            raise MissedFloor(_reached(search, answered))
        if bundle.plan is not None and plugin_of(bundle.plan.run.backend):
            seed = int.from_bytes(os.urandom(4))
            check_unseen(pack.first, pack.others[0], seed, means.runner.folder, _accuracy_db(answered))
        generation = _generation(search, means, pack.first, answered)
        means.ending.extend_for_proof(shortest_seconds(pack, starter))
        terms = terms_of(search.objective, means.ending, legs, len(ways), len(pack.others) - len(ways))
        found = _raced(means, pack, starter, terms)
        if found.warning:
            means.notes.inform(found.warning)
        means.notes.warn_once(_weak(search, answered))
        faced = list(zip(pack.others, found.decisions, strict=True))
        against = _hardest(faced[: len(ways)])
        incumbent = _hardest(faced[len(ways) :]) if search.incumbent is not None else None
        proof = _proof(search, bundle, pack.first, against, incumbent, answered, found)
        proof = msgspec.structs.replace(proof, generation=generation)
        return ProofRun(proof, answered.reference, answered.single)


def unchanged(search: Search, means: SearchResources, bundle: BundleDraft) -> ProofRun:
    """Measures a bundle that runs the baseline itself: there is nothing to compare its speed with.

    Raises TrialError if the bundle fails.
    """
    sides = [*_sides(search, means.runner, bundle, [bundle.calls])][:2]
    means.ending.begin_proof()
    with ExitStack() as stack:
        pack = Starter(means.runner.host, sides, stack, search.objective.by_sample).first()
        answered, alone = _answered(search, means.runner, pack, bundle.calls.batch), pack.first
        generation = _generation(search, means, alone, answered)
        pack.others[0].close()
        means.notes.warn_once(_weak(search, answered))
        watch = DeviceWatch(StateSampler(lambda: ()))
        until_s = means.ending.proofs_end_s
        if means.meter is not None:
            meter_all(means.meter, [alone], means.notes.emit, METERED_PROOF)
        span_ms = slice_ms(alone.loaded.first_run_ms)
        for _ in run_slices([alone], ALONE, lambda: span_ms, watch, is_late=lambda: time.monotonic() > until_s):
            """Each is kept by the contender."""
        if alone.failure is not None:
            raise alone.error or TrialError(alone.failure)
        own = min(alone.slices_ms)
        decision = Decision(True, TOO_FEW, UNITY, None, 0, first_ms=own, second_ms=own)
        found = Found(Pairs.of(0, rules_of(PROOF)), watch.states, 1, 1, 0.0)
        faced = _Faced(alone, decision, IDENTICAL)
        proof = _proof(search, bundle, alone, faced, None, answered, found)
        proof = msgspec.structs.replace(proof, less=None, by_size=(), generation=generation)
        return ProofRun(proof, answered.reference, answered.single)


def _generation(
    search: Search, means: SearchResources, bundle: Contender, answered: ProofOutputs
) -> GenerationProof | None:
    decoder = search.data.decoder
    if decoder is None or decoder.generation is None:
        return None
    means.emit(Progress("proving", "steps with the cache, and generated tokens"))
    goal, folder = search.reference.goal, means.runner.folder
    limit_s = means.ending.generation_left_s
    return prove_generation(bundle, decoder.generation, goal, _accuracy_db(answered), folder, limit_s)


def _weak(search: Search, answered: ProofOutputs) -> str:
    goal = search.reference.goal
    weak = weak_samples(answered.accuracy, goal.needed, search.reference.usual) if goal.is_ratio else None
    if weak is not None:
        return weak.warning
    return answered.judged.tail.warning if answered.judged.tail is not None else ""


def _sides(search: Search, runner: TrialRunner, bundle: BundleDraft, ways: Sequence[Calls]) -> Sequence[Side]:
    """Returns the bundle, then the ways to run the baseline, then those to run the incumbent."""

    sides = [_side(runner, "bundle", "bundle", bundle.folder, bundle.calls)]
    sides += [_side(runner, "baseline", search.baseline.backend, search.request.model, how) for how in ways]
    if search.incumbent is not None:
        folder, known = search.incumbent.folder, _incumbent_ways(search.incumbent, search.objective)
        called = dict.fromkeys((bundle.calls, *known))
        sides += [_side(runner, "current", "bundle", folder, how) for how in called]
    return sides


def _side(runner: TrialRunner, name: str, backend: str, path: Path, how: Calls) -> Side:
    load = Load(backend, runner.host.put(path), {}, runner.host.put(runner.samples_path), batch=how.batch)
    return Side(name, load, concurrency=how.callers)


def _incumbent_ways(incumbent: Bundle, objective: Objective) -> Sequence[Calls]:
    """Returns the calls that the incumbent was proved with, if that was for throughput."""
    proved = incumbent.deployment.evidence
    load = proved.load if proved is not None and objective.by_sample else None
    return [Calls(load.callers, load.batch)] if load is not None else []


def _answered(search: Search, runner: TrialRunner, pack: ProcessGroup, batch: int) -> ProofOutputs:
    reference, which = search.reference, search.reference.split.prove
    with judge_for(runner, pack.others[0], search.baseline.backend, search.request.model) as judge:
        expected = runner.outputs(judge, which, 1)
    outputs = runner.outputs(pack.first, which)
    # The race used batches; the answers to single samples must be as good.
    single = outputs if batch == 1 else runner.outputs(pack.first, which, 1)
    judged = reference.judge(which, outputs, expected)
    every = [judged] if single is outputs else [judged, reference.judge(which, single, expected)]
    found = [reference.goal.evidence(each) for each in every]
    evidence = max(found, key=EVIDENCE_LEVELS.index)
    met = all(reference.goal.proves(each) for each in every)
    return ProofOutputs(expected, single, compare_outputs(expected, outputs), judged, evidence, met)


def _accuracy_db(answered: ProofOutputs) -> float:
    judged = answered.judged
    return answered.accuracy.snr_db if judged.snr_db is None else judged.snr_db


def _reached(search: Search, answered: ProofOutputs) -> str:
    """Formats the accuracy reached, such as `22.8 dB, the worst tenth of them 10.5`."""
    judged, goal = answered.judged, search.reference.goal
    reached = f"{_accuracy_db(answered):.1f} dB" if goal.is_ratio else goal.describe(judged)
    if judged.weakest is not None:
        reached += f" ({judged.weakest.where})"
    return reached + goal.tail_words(judged.tail)


def _raced(means: SearchResources, pack: ProcessGroup, starter: Starter, terms: Terms) -> Found:
    """Measures the bundle and its rivals in legs of fresh processes."""
    old = pack.others[0]
    # The first round warms up all sides together and is not counted.
    run_rounds(list(pack.every), 1, leg_slice_ms(old.loaded.first_run_ms))
    span_ms = leg_slice_ms(old.run_ms) if old.slices_ms else leg_slice_ms(1.0)
    if means.meter is not None:
        meter_all(means.meter, [old, pack.first], means.notes.emit, METERED_PROOF)
    pack.forget()
    return run_legs(pack, starter, terms, span_ms)


def _proof(
    search: Search,
    bundle: BundleDraft,
    new: Contender,
    against: _Faced,
    incumbent: _Faced | None,
    answered: ProofOutputs,
    found: Found,
) -> Proof:
    old, objective, goal = against.contender, search.objective, search.reference.goal
    accuracy, judged, decision = answered.accuracy, answered.judged, against.decision
    data = search.data
    by_size = times_by_size(data.shaped, old, new, rotated(data.samples)) if bundle.calls == ONE else ()
    metered = old.joules and len(old.joules) == len(new.joules)
    return Proof(
        verdict=against.verdict,
        speedup=decision.speedup,
        baseline_ms=_run_ms(old, decision.second_ms),
        latency_ms=_run_ms(new, decision.first_ms),
        accuracy_db=_accuracy_db(answered),
        samples=search.reference.split.prove_count,
        set_aside=search.reference.split.is_set_aside,
        generated=not data.of_user and data.decoder is None,
        memory=new.memory,
        baseline_memory=old.memory,
        fallback=fallback(new.loaded.placement) or "",
        outputs=tuple(output.without_samples() for output in accuracy.outputs),
        taken=trial_log(new),
        baseline_taken=trial_log(old),
        measured_while=sentence(found.states),
        judged="" if goal.is_ratio else goal.describe(judged),
        metric=None if goal.is_ratio else judged,
        is_shown=answered.evidence == "shown",
        current=incumbent.decision.speedup if incumbent else None,
        current_verdict=incumbent.verdict if incumbent else "",
        less=sign_interval(paired_ratios(old.joules, new.joules), _CONFIDENCE) if metered else None,
        figure=_figure(objective, new, decision.first_ms, bundle.size_bytes),
        baseline_figure=_figure(objective, old, decision.second_ms, search.facts.size_bytes),
        baseline_calls=Calls(old.concurrency, old.batch),
        by_size=by_size,
        met=answered.met,
        tail=judged.tail,
        weakest=judged.weakest,
        legs=found.legs,
    )


def _hardest(faced: Sequence[tuple[Contender, Decision | None]]) -> _Faced:
    """Returns the rival that comes nearest, and the verdict: faster only if the bundle is faster than each."""
    known = [(each, decision) for each, decision in faced if decision is not None]
    nearest, found = min(known, key=lambda pair: pair[1].speedup.median)
    verdict = found.verdict
    if verdict == FASTER:
        verdict = next((each.verdict for _, each in known if each.verdict != FASTER), verdict)
    return _Faced(nearest, found, verdict)


def _figure(objective: Objective, contender: Contender, sample_ms: float, size_bytes: int) -> float | None:
    if objective.per_second:
        return 1e3 / sample_ms
    if objective.name == FIRST_TOKEN:
        return sample_ms
    return objective.figure_of(contender, size_bytes)


def _run_ms(contender: Contender, slice_ms: float) -> float:
    """Returns the time of a run: in a search for throughput, slices are measured by samples, not by runs."""
    return float(np.median(contender.latencies_ms)) if contender.by_sample else slice_ms
