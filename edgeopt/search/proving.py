"""Measures a bundle as it was written, in fresh processes, against the baseline and what runs today."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.backends.strictness import fallback
from edgeopt.bench.contender import Contender, enter
from edgeopt.bench.instruments.machine_state import StateSampler, sentence
from edgeopt.bench.messages import Load
from edgeopt.bench.report import RoundState
from edgeopt.bench.rounds import run_rounds, slice_ms
from edgeopt.bench.stats import Interval, paired_ratios, sign_interval, verdict
from edgeopt.bench.taken import taken_by
from edgeopt.bundle import write
from edgeopt.errors import TrialError
from edgeopt.events import Progress
from edgeopt.graph.verify import compare_outputs
from edgeopt.search.aims import figure_of
from edgeopt.search.field import Field
from edgeopt.search.outcome import Candidate, Proof
from edgeopt.search.prepare import Search
from edgeopt.search.report import deployment_of
from edgeopt.search.screen import outputs_of
from edgeopt.search.steps import record_of

# Enough pairs for an interval that means something, few enough for a search of a minute; as many again while it is
# not clear: for the best candidate up to six times, for each of the three behind it up to two times. When four in
# a row fail their proof, something other than the candidate is wrong.
PROOF_ROUNDS = 11
LOOKS = (6, 2, 2, 2)
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
    write.fill(folder, files, described, {}, record_of(field, candidate))
    size_bytes = sum(file.stat().st_size for file in files.values())
    found = measured(search, folder, size_bytes, looks, _current(search))
    first, golden = search.course.split.prove_first, min(search.course.split.prove_count, _GOLDEN_SAMPLES)
    write.write_golden(folder, "inputs", [search.samples.feeds(first + k) for k in range(golden)])
    write.write_golden(folder, "outputs", found.outputs[:golden])
    write.write_golden(folder, "reference", found.reference[:golden])
    return found.proof


def measured(search: Search, folder: Path, size_bytes: int, looks: int, current: Path | None = None) -> Proved:
    """A bundle against the baseline, and against what runs today; TrialError where one of them falls."""
    course, model = search.course, search.settings.model
    samples = course.host.put(course.samples_path)
    with ExitStack() as stack:

        def start(name: str, load: Load) -> Contender:
            contender = enter(course.host, name, load)
            stack.callback(contender.close)
            return contender

        bundle = start("bundle", Load("bundle", course.host.put(folder), {}, samples))
        old = start("baseline", Load(search.baseline.backend, course.host.put(model), {}, samples))
        others = [start("current", Load("bundle", course.host.put(current), {}, samples))] if current else []
        first, count = course.split.prove_first, course.split.prove_count
        reference, outputs = outputs_of(course, old, first, count), outputs_of(course, bundle, first, count)
        accuracy = compare_outputs(reference, outputs)
        goal = course.goal
        judged = goal.judge(outputs, reference, course.labels_of(first, count))
        # The first round warms all up together and is not counted.
        run_rounds([old, bundle, *others], 1, slice_ms(old.loaded.first_run_ms))
        span_ms = slice_ms(old.slices_ms[-1]) if old.slices_ms else slice_ms(1.0)
        for contender in (old, bundle, *others):
            contender.slices_ms.clear()
            contender.latencies_ms.clear()
        states = _run(bundle, [old, *others], span_ms, looks, search.until(1.0))
        ratio = _ratio(old, bundle)
        today = _ratio(others[0], bundle) if others else None
        proof = Proof(
            verdict(ratio),
            ratio,
            float(np.median(old.slices_ms)),
            float(np.median(bundle.slices_ms)),
            accuracy.snr_db,
            count,
            course.split.calibration_count > 0,
            bundle.memory,
            old.memory,
            fallback(bundle.loaded.placement) or "",
            tuple(output.without_samples() for output in accuracy.outputs),
            taken_by(bundle),
            taken_by(old),
            sentence(states),
            figure=figure_of(search, bundle, size_bytes),
            baseline_figure=figure_of(search, old, search.facts.size_bytes),
            current=today,
            current_verdict="" if today is None else verdict(today),
            met=goal.score(judged)[0] >= goal.needed,
            judged="" if goal.is_ratio else f"{goal.title} {goal.shown(judged.value)}",
        )
        return Proved(proof, reference, outputs)


def _current(search: Search) -> Path | None:
    return None if search.current is None else search.current.folder


def _run(
    new: Contender, others: Sequence[Contender], span_ms: float, looks: int, until: float
) -> list[RoundState]:
    """Rounds, and more of them while an answer is not clear and there is time; the device's state in each.

    Raises TrialError when one falls.
    """
    sampler = StateSampler(lambda: ())
    states: list[RoundState] = []
    for _ in range(looks):
        for place in range(PROOF_ROUNDS):
            sampler.begin_round(len(states))
            run_rounds([*others, new], 1, span_ms, first=place)
            states.append(sampler.end_round())
        failure = next((each.failure for each in (new, *others) if each.failure), None)
        if failure:
            raise TrialError(failure)
        clear = all(verdict(_ratio(other, new)) != "no difference seen" for other in others)
        if clear or time.monotonic() >= until:
            break
    return states


def _ratio(old: Contender, new: Contender) -> Interval:
    return sign_interval(paired_ratios(old.slices_ms, new.slices_ms), _CONFIDENCE)


def _model_files(search: Search, field: Field, candidate: Candidate) -> dict[str, Path]:
    path = field.path_of(candidate)
    if candidate.variant == "source":
        return {path.name: path, **{name: path.parent / name for name in search.facts.external}}
    return {file.name: file for file in path.parent.iterdir() if file.is_file()}
