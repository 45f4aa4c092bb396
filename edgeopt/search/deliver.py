"""Writes the bundle, measures it again as written, and hands it out only when it is faster and good."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from edgeopt.backends.strictness import fallback
from edgeopt.bench.contender import Contender, enter
from edgeopt.bench.instruments.machine_state import StateSampler, sentence
from edgeopt.bench.messages import Load
from edgeopt.bench.report import RoundState
from edgeopt.bench.rounds import run_rounds, slice_ms
from edgeopt.bench.stats import Interval, paired_ratios, sign_interval, verdict
from edgeopt.bench.taken import taken_by
from edgeopt.bundle import write
from edgeopt.errors import TrialError, VerificationError
from edgeopt.events import Progress
from edgeopt.graph.verify import compare_outputs
from edgeopt.search.aims import figure_of, proved_figure
from edgeopt.search.conditions import check_limits, over, told, wins
from edgeopt.search.field import Field
from edgeopt.search.limits import OVER
from edgeopt.search.outcome import Candidate, Outcome, Proof
from edgeopt.search.prepare import Search
from edgeopt.search.race import relative_speeds
from edgeopt.search.report import deployment_of, evidence_of, ledger_of, outcome_of
from edgeopt.search.screen import Entry, outputs_of
from edgeopt.search.standings import final, racing
from edgeopt.search.steps import record_of

# Enough pairs for an interval that means something, few enough for a search of a minute; as many again while it is
# not clear: for the best candidate up to six times, for each of the three behind it up to two times. When four in
# a row fail their proof, something other than the candidate is wrong.
PROOF_ROUNDS = 11
_LOOKS = (6, 2, 2, 2)
# One false "faster" in forty searches at most, however often it looked and however many candidates it tried.
_CONFIDENCE = 1 - 2 * 0.025 / sum(_LOOKS)
_GOLDEN_SAMPLES = 4


def deliver(search: Search, field: Field, best: list[Entry], begin: float) -> Outcome:
    """Tries the best candidates in order; when none holds, the bundle is the baseline: keep what you have."""
    _leave_the_track(search, best)
    field.close()
    # What is said of these may still change.
    open_ends = list(best)
    for entry, looks in zip(_in_line(search, field, best), _LOOKS, strict=False):
        open_ends = [e for e in open_ends if e is not entry]
        search.emit(racing(entry))
        with write.draft(search.settings.out) as folder:
            try:
                proof = prove(search, field, entry.candidate, folder, looks)
            except TrialError as error:
                entry.status, entry.reason = "failed", f"from the written bundle: {error.message}"
                search.emit(final(entry))
                continue
            if not proof.met:
                entry.status = "below the floor"
                reached = proof.judged or f"{proof.accuracy_db:.1f} dB"
                entry.reason = f"{reached} from the written bundle, on samples set aside"
            elif too_much := over(search, entry, proof):
                entry.status, entry.reason = OVER, f"from the written bundle: {too_much}"
            elif not wins(search, proof):
                entry.reason = f"measured again from the written bundle: {told(search, proof)}"
            else:
                entry.status, entry.reason = "winner", ""
                outcome = outcome_of(search, field, entry.candidate, proof, time.monotonic() - begin)
                publish(search, field, entry.candidate, outcome, folder)
                _tell_all(search, [entry, *open_ends])
                return outcome
            search.emit(final(entry))
    with write.draft(search.settings.out) as folder:
        try:
            proof = prove(search, field, search.baseline, folder, looks=1)
        except TrialError as error:
            raise VerificationError(
                f"Not even the source model could be measured again from a bundle: {error.message}.",
                "Run it again; if it happens twice, the device is too busy or short of memory.",
            ) from None
        check_limits(search, field, proof)
        outcome = outcome_of(search, field, search.baseline, proof, time.monotonic() - begin)
        publish(search, field, search.baseline, outcome, folder)
        _tell_all(search, open_ends)
        return outcome


def _tell_all(search: Search, entries: list[Entry]) -> None:
    for entry in entries:
        search.emit(final(entry))


def _in_line(search: Search, field: Field, best: list[Entry]) -> list[Entry]:
    """Who may prove itself: the finalists, then those who left earlier, as far as they beat the baseline."""
    if search.objective.figure is not None:
        # Nobody who came in behind what the user has.
        own = next((place for place, e in enumerate(best) if e.candidate == search.baseline), len(best))
        return [e for e in best[:own] if e.speedup]
    others = [e for e in field.entries if e not in best and e.status == "lost" and e.speedup]
    others.sort(key=lambda e: e.speedup.median if e.speedup else 0.0, reverse=True)
    return [e for e in [*best, *others] if e.candidate != search.baseline and e.speedup and e.speedup.median > 1.0]


def _leave_the_track(search: Search, best: list[Entry]) -> None:
    """Every entry keeps what it measured and why it is behind, then its trial ends."""
    speeds, least = relative_speeds(search.baseline_contender, best), 0.0
    for place, entry in enumerate(best):
        entry.measured(search.baseline_contender)
        share = speeds[id(entry)] / max(speeds[id(best[0])], 1e-9)
        reason = f"{share:.2f} of the speed of {best[0].candidate.name}"
        figure, shown = figure_of(search, entry), search.objective.shown
        if figure is not None:
            least = figure if place == 0 else least
            reason = f"{search.objective.title} {shown(figure)}, where {best[0].candidate.name} has {shown(least)}"
        if place == 0:
            itself = entry.candidate == search.baseline
            reason = "the baseline" if itself else "first in the race, but not proved better than the baseline"
        entry.leave("lost", reason)


def prove(search: Search, field: Field, candidate: Candidate, folder: Path, looks: int) -> Proof:
    """Writes the bundle in a hidden folder and measures what was written against the baseline, both afresh."""
    search.emit(Progress("proving", f"the written bundle: {candidate.name}"))
    files, described = _model_files(search, field, candidate), deployment_of(search, field, candidate)
    write.fill(folder, files, described, {}, record_of(field, candidate))
    course, model = search.course, search.settings.model
    samples = course.host.put(course.samples_path)
    with ExitStack() as stack:

        def start(name: str, load: Load) -> Contender:
            contender = enter(course.host, name, load)
            stack.callback(contender.close)
            return contender

        bundle = start("bundle", Load("bundle", course.host.put(folder), {}, samples))
        old = start("baseline", Load(search.baseline.backend, course.host.put(model), {}, samples))
        first, count = course.split.prove_first, course.split.prove_count
        reference, outputs = outputs_of(course, old, first, count), outputs_of(course, bundle, first, count)
        accuracy = compare_outputs(reference, outputs)
        goal = course.goal
        judged = goal.judge(outputs, reference, course.labels_of(first, count))
        # The first round warms both up as a pair and is not counted.
        run_rounds([old, bundle], 1, slice_ms(old.loaded.first_run_ms))
        span_ms = slice_ms(old.slices_ms[-1]) if old.slices_ms else slice_ms(1.0)
        for contender in (old, bundle):
            contender.slices_ms.clear()
            contender.latencies_ms.clear()
        ratio, states = _ratio(old, bundle, span_ms, looks, search.until(1.0))
        golden = min(count, _GOLDEN_SAMPLES)
        write.write_golden(folder, "inputs", [search.samples.feeds(first + k) for k in range(golden)])
        write.write_golden(folder, "outputs", outputs[:golden])
        write.write_golden(folder, "reference", reference[:golden])
        return Proof(
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
            figure=proved_figure(search, bundle, _bytes(files)),
            baseline_figure=proved_figure(search, old, search.facts.size_bytes),
            met=goal.score(judged)[0] >= goal.needed,
            judged="" if goal.is_ratio else f"{goal.title} {goal.shown(judged.value)}",
        )


def _bytes(files: Mapping[str, Path]) -> int:
    return sum(file.stat().st_size for file in files.values())


def _ratio(
    old: Contender, new: Contender, span_ms: float, looks: int, until: float
) -> tuple[Interval, list[RoundState]]:
    """How much faster the new one is, and the device's state in each round; more rounds while that is not clear
    and there is time.

    Raises TrialError when one falls.
    """
    sampler = StateSampler(lambda: ())
    states: list[RoundState] = []
    for _ in range(looks):
        for place in range(PROOF_ROUNDS):
            sampler.begin_round(len(states))
            run_rounds([old, new], 1, span_ms, first=place)
            states.append(sampler.end_round())
        failure = old.failure or new.failure
        if failure:
            raise TrialError(failure)
        found = sign_interval(paired_ratios(old.slices_ms, new.slices_ms), _CONFIDENCE)
        if verdict(found) != "no difference seen" or time.monotonic() >= until:
            break
    return found, states


def publish(search: Search, field: Field, candidate: Candidate, outcome: Outcome, folder: Path) -> Outcome:
    """Adds the evidence and puts the bundle in its place."""
    evidence = evidence_of(search, outcome.proof, outcome)
    deployment = deployment_of(search, field, candidate, outcome.summary, evidence)
    documents: dict[str, object] = {"evidence.json": outcome, "ledger.json": ledger_of(field, candidate)}
    write.fill(folder, {}, deployment, documents, record_of(field, candidate))
    write.publish(folder, search.settings.out, single_file=search.settings.single_file)
    return outcome


def _model_files(search: Search, field: Field, candidate: Candidate) -> dict[str, Path]:
    path = field.path_of(candidate)
    if candidate.variant == "source":
        return {path.name: path, **{name: path.parent / name for name in search.facts.external}}
    return {file.name: file for file in path.parent.iterdir() if file.is_file()}
