"""Delivery of a bundle: writes it, proves it as written, and publishes it only if it is faster and accurate."""

import dataclasses
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from edgeopt import units
from edgeopt.bundle import write
from edgeopt.bundle.deployment import Deployment
from edgeopt.bundle.plan import on_device
from edgeopt.bundle.processing.attach import Attached
from edgeopt.bundle.read import Bundle
from edgeopt.data.judging.goals import ACCEPT
from edgeopt.errors import ConstraintError, TrialError, VerificationError
from edgeopt.events import Log, Progress
from edgeopt.measure.legs import FEWEST
from edgeopt.measure.schedules import PROOF
from edgeopt.measure.stages import fill_timed
from edgeopt.measure.stats import FASTER, TOO_NOISY, Interval, verdict
from edgeopt.pipeline.context import SearchResources
from edgeopt.pipeline.goal import SearchGoal
from edgeopt.pipeline.inspect import Search, is_wrapped
from edgeopt.pipeline.notes import SearchNotes
from edgeopt.pipeline.objectives import ENERGY, OVER, ResourceLimits, excess
from edgeopt.pipeline.outcome import CURRENT, Candidate, Outcome, Proof
from edgeopt.pipeline.prove.proving import (
    BundleDraft,
    MissedFloor,
    UnprovenFloor,
    measured,
    put_golden,
    unchanged,
    written,
)
from edgeopt.pipeline.prove.report import (
    SearchSummary,
    evidence_for,
    outcome_of,
)
from edgeopt.pipeline.race.race import AS_FAST, SPARE_CORES, one_thread
from edgeopt.pipeline.screen import CandidatePool, PoolEntry, final, numbers_of, racing
from edgeopt.pipeline.shapes.sized import slower_sizes
from edgeopt.pipeline.stopping import StopControl, nothing_proved_error


def prove(search: Search, resources: SearchResources, bundle: BundleDraft, legs: int) -> Proof:
    """Measures a written bundle and adds its golden samples; without `legs`, it runs the baseline itself."""
    found = measured(search, resources, bundle, legs) if legs else unchanged(search, resources, bundle)
    put_golden(search, bundle.folder, found, resources.notes)
    return found.proof


def outcome_for(pool: CandidatePool, winner: Candidate, proof: Proof) -> Outcome:
    """Returns the outcome of the search as of now."""
    ending = pool.resources.ending
    summary = SearchSummary(pool.resources.notes.kept, ending.cut_short, ending.clock.spent_s, ending.unproved)
    return outcome_of(pool.search, pool.variants, pool.entries, winner, proof, summary)


_INACCURATE = ("below the floor", "unproven")
_MAX_UNCERTAIN = 2
_MIN_UNCERTAIN, _WORTH = 0.5, 1.1
"""Least speed-up in the race, and least upper end of its interval, for which a proof is worth its time."""
# Of an objective that no contest decides; memory and first answers differ by a percent or so from run to run.
_CLEARLY_LESS = 0.97


def meets_conditions(goal: SearchGoal, incumbent: Bundle | None, proof: Proof, candidate: Candidate) -> bool:
    """Whether the candidate is faster; or else clearly better, and not slower unless latency has a limit."""
    slow_allowed = goal.limits.latency_ms is not None
    if slower_sizes(proof.by_size) and not slow_allowed:
        return False
    if goal.objective.figure is None and proof.current is not None:
        # The incumbent counts; the source in plain defaults may be as fast as the candidate, but not faster.
        clear = proof.current.low > min_gain(incumbent, candidate)
        return clear and proof.current_verdict == FASTER and proof.verdict != "slower"
    if goal.objective.figure is None:
        return proof.verdict == FASTER
    if proof.figure is None or proof.baseline_figure is None:
        return False
    if goal.objective.name == ENERGY and (proof.less is None or verdict(proof.less) != FASTER):
        return False
    slower = "slower" in {proof.verdict, proof.current_verdict}
    return proof.figure < _CLEARLY_LESS * proof.baseline_figure and (slow_allowed or not slower)


def min_gain(incumbent: Bundle | None, candidate: Candidate) -> float:
    """Returns the least speed-up over the incumbent: more than a race asks of a candidate that takes more
    cores, or the two would replace each other in turn."""
    if incumbent is None or one_thread(candidate):
        return 1.0
    return SPARE_CORES**2 if incumbent.deployment.run.options.get("threads") == 1 else 1.0


def rejection_reason(goal: SearchGoal, incumbent: Bundle | None, proof: Proof, candidate: Candidate) -> str:
    speed = f"{proof.verdict} ({proof.speedup})"
    if slower := slower_sizes(proof.by_size):
        speed += f", but {slower}"
    if proof.current is not None:
        speed += f"; compared with the baseline you gave: {proof.current_verdict} ({proof.current})"
        if (minimum := min_gain(incumbent, candidate)) > 1.0 and proof.current_verdict == FASTER:
            gain = units.percent(minimum - 1, 0)
            speed += f", which runs on one thread: not proved by {gain}, the gain of the other cores"
    if proof.figure is None or proof.baseline_figure is None:
        return speed
    shown = goal.objective.shown
    return f"{goal.objective.title} {shown(proof.figure)} instead of {shown(proof.baseline_figure)}, {speed}"


def check_limits(limits: ResourceLimits, size_bytes: int, entries: Sequence[PoolEntry], proof: Proof) -> None:
    """Raises ConstraintError if even the unchanged model, of this size, exceeds the limits."""
    too_much = excess(limits, proof.memory, size_bytes, proof.latency_ms)
    if not too_much:
        return
    reasons = dict.fromkeys(e.reason for e in entries if e.status == OVER)
    others = f" Of the others: {'; '.join(list(reasons)[:3])}." if reasons else ""
    raise ConstraintError(
        f"No proved candidate is within the limits. The model unchanged: {too_much}.{others}",
        "Raise the limit, lower the floor, or give data so that lower precisions can be tried.",
    )


class Documents(NamedTuple):
    """Documents of a bundle."""

    deployment: Deployment
    others: dict[str, object]
    record: bytes | None = None
    """Results of calibration."""


def publish_proved(pool: CandidatePool, bundle: BundleDraft, winner: Candidate, outcome: Outcome) -> Outcome:
    """Adds the evidence and puts the bundle in its place."""
    assert bundle.plan is not None  # noqa: S101 - what runs today is published as it is
    deployment = bundle.plan.deployment(pool.search.device, outcome.summary, evidence_for(outcome))
    documents: dict[str, object] = {"evidence.json": outcome, "ledger.json": pool.variants.ledger(winner)}
    publish(pool.search, pool.resources, bundle.folder, Documents(deployment, documents, bundle.plan.record))
    return outcome


def publish(search: Search, resources: SearchResources, folder: Path, documents: Documents | None) -> None:
    """Puts a bundle in its place; `documents` is None for a bundle that has them."""
    if documents is not None:
        described = documents.deployment, documents.others, documents.record
        fill_timed(resources.runner.host, folder, *described, resources.emit)
    write.publish(folder, search.request.out, single_file=search.request.single_file)


def keep_incumbent(pool: CandidatePool, current: Bundle) -> Outcome:
    """Measures the incumbent against the source, and puts a copy of the incumbent in the bundle's place.

    The evidence of a bundle stays as it was; what was a model gets what was measured now, and its processing.
    """
    search, resources, run = pool.search, pool.resources, current.deployment.run
    notes = resources.notes
    notes.emit(Progress("proving", "what runs today"))
    size_bytes = sum(file.stat().st_size for file in current.model.parent.iterdir() if file.is_file())
    alone = dataclasses.replace(search, incumbent=None)
    found = measured(
        alone,
        resources,
        BundleDraft(current.folder, size_bytes, search.baseline.calls),
        FEWEST,
        whatever_floor=True,
    )
    if not found.proof.met:
        notes.warn(
            f"The baseline reaches {found.proof.accuracy_db:.1f} dB on the samples of the proof: below the floor."
        )
    made_here = is_wrapped(current, resources.runner.folder)
    if search.attached is not None and not made_here and not _processes(current, search.attached):
        notes.warn("The baseline is kept unchanged: its bundle does not apply this --pre and --post.")
    kept = Candidate(CURRENT, run.backend, run.options, search.baseline.calls)
    with write.draft(search.request.out) as folder:
        shutil.copytree(current.folder, folder, dirs_exist_ok=True)
        if made_here:
            if search.attached is not None:
                search.attached.put(folder)
            put_golden(search, folder, found, notes)
        outcome = outcome_for(pool, kept, found.proof)
        documents = Documents(_deployment(current, search, outcome), {"evidence.json": outcome, "ledger.json": ()})
        publish(search, resources, folder, documents if made_here else None)
    return outcome


def _processes(current: Bundle, attached: Attached) -> bool:
    """Whether the bundle already has exactly this preprocessing and postprocessing."""
    own = current.deployment.processing
    return own is not None and msgspec.structs.replace(own, times=None) == attached.processing


def _deployment(current: Bundle, search: Search, outcome: Outcome) -> Deployment:
    return on_device(
        current.deployment,
        search.device,
        target=search.profile.name,
        summary=outcome.summary,
        evidence=evidence_for(outcome),
        processing=search.attached.processing if search.attached is not None else None,
    )


def deliver(pool: CandidatePool, best: list[PoolEntry]) -> Outcome:
    """Proves the best candidates in order; if none holds, the bundle is the baseline."""
    ending, notes = pool.resources.ending, pool.resources.notes
    outcome = None
    line = _proof_candidates(pool.search, pool.entries, best)
    for entry, legs in proof_order(ending, notes, line, _uncertain(pool, line)):
        notes.emit(racing(entry))
        outcome = _tried(pool, entry, legs)
        notes.emit(final(entry))
        if outcome is not None:
            break
    if outcome is None and ending.is_stopping:
        raise nothing_proved_error("proving", kept=ending.kept)
    outcome = outcome or _kept(pool)
    # Figures of the race differ from those of the proof: the last events show what the outcome says.
    for report in outcome.candidates:
        notes.emit(final(report))
    return outcome


def proof_order(
    ending: StopControl, notes: SearchNotes, line: Sequence[PoolEntry], uncertain: Sequence[PoolEntry] = ()
) -> Iterator[tuple[PoolEntry, int]]:
    """Yields the candidates to prove, each with its maximum number of legs; after the time limit only the first.

    Those that are `uncertain` follow if all others failed and there is time. Last comes the first candidate whose
    own proof was too noisy, if there is one, because the machine may be quieter by then.
    """
    waiting, tried, place, promising = list(line), list[PoolEntry](), 0, True
    while place < len(PROOF.legs):
        legs = ending.legs(place, PROOF.legs[place])
        if not legs:
            return
        if not waiting and promising and not ending.is_stopping:
            waiting, promising = list(uncertain), False
        waiting = [one for one in waiting if not any(_fails_as(one, other) for other in tried)]
        noisy = next((one for one in tried if one.proof_verdict == TOO_NOISY), None)
        again = noisy if place == len(PROOF.legs) - 1 or not waiting else None
        if again is None and not waiting:
            return
        if tried and place <= 1:
            ending.extend_for_another_proof()
        if tried and not ending.has_time_to_prove:
            left = ending.unproved = min(len(waiting), len(PROOF.legs) - place) if promising else 0
            if left:
                several = "promising candidate was" if left == 1 else "promising candidates were"
                notes.inform(
                    f"Time limit reached: {left} more {several} not measured from a written bundle. A longer time "
                    "limit allows it."
                )
            return
        if again is not None:
            notes.emit(Log("info", f"Proving {again.candidate.name} again, which was too noisy to tell."))
            yield again, max(legs, PROOF.legs[0])
            return
        tried.append(waiting.pop(0))
        yield tried[-1], legs
        # One below the floor is known to be after some seconds, before the legs; who stops a search waits for few.
        place += tried[-1].status not in _INACCURATE or ending.is_stopping


def _fails_as(entry: PoolEntry, tried: PoolEntry) -> bool:
    """Whether the entry computes the same numbers as one that was below the floor in its proof."""
    return tried.status in _INACCURATE and numbers_of(entry.candidate) == numbers_of(tried.candidate)


def _tried(pool: CandidatePool, entry: PoolEntry, legs: int) -> Outcome | None:
    """Returns the outcome if the entry is proved, with its bundle in place; otherwise notes the reason."""
    entry.of_best = None  # the proof decides whether the entry is out
    with written(pool, entry.candidate) as bundle:
        try:
            proof = prove(pool.search, pool.resources, bundle, legs)
        except MissedFloor as missed:
            entry.status = "below the floor"
            entry.reason = f"{missed} from the written bundle, on the samples of the proof"
            return None
        except UnprovenFloor as unproven:
            entry.status, entry.reason = "unproven", str(unproven)
            pool.resources.notes.warn_once(_unproven(entry))
            return None
        except TrialError as error:
            entry.status, entry.reason = "failed", f"from the written bundle: {error.message}"
            return None
        entry.proof, entry.proof_verdict = proof.speedup, proof.verdict
        if not _holds(pool.search, entry, proof):
            return None
        entry.status, entry.reason = "winner", ""
        outcome = outcome_for(pool, entry.candidate, proof)
        return publish_proved(pool, bundle, entry.candidate, outcome)


def _unproven(entry: PoolEntry) -> str:
    return (
        f"{entry.candidate.name} is not delivered: {entry.reason}. Give more samples or a larger limit, or accept "
        f"it with {ACCEPT}."
    )


def _holds(search: Search, entry: PoolEntry, proof: Proof) -> bool:
    """Whether the entry may be delivered; if not, records the reason in the entry."""
    goal, incumbent = search.goal, search.incumbent
    if too_much := excess(goal.limits, proof.memory, entry.size_bytes, proof.latency_ms):
        entry.status, entry.reason = OVER, f"from the written bundle: {too_much}"
    elif not meets_conditions(goal, incumbent, proof, entry.candidate):
        why = rejection_reason(goal, incumbent, proof, entry.candidate)
        entry.reason = f"measured again from the written bundle: {why}"
    else:
        return True
    return False


def _kept(pool: CandidatePool) -> Outcome:
    """Delivers what the user has: the incumbent, or else the source as it is, in a bundle."""
    search, source = pool.search, pool.search.baseline
    if search.incumbent is not None:
        return keep_incumbent(pool, search.incumbent)
    with written(pool, source) as bundle:
        try:
            proof = prove(search, pool.resources, bundle, 0)
        except TrialError as error:
            raise VerificationError(
                f"The source model could not be measured from a bundle: {error.message}.",
                "Run the command again. If it fails twice, the device is too busy or short of memory.",
            ) from None
        check_limits(search.goal.limits, search.facts.size_bytes, pool.entries, proof)
        return publish_proved(pool, bundle, source, outcome_for(pool, source, proof))


def _uncertain(pool: CandidatePool, line: Sequence[PoolEntry]) -> list[PoolEntry]:
    """Returns the candidates that came out slower by intervals that leave it open.

    Two threads run at one of two speeds, as the system happens to place them in a process, and a proof starts
    several processes.
    """
    if pool.search.goal.objective.figure is not None:
        return []
    found = [
        e
        for e in pool.entries
        if e not in line and e.candidate != pool.search.baseline and e.status == "lost" and _is_open(e.speedup)
    ]
    return sorted(found, key=lambda e: e.speedup.high if e.speedup else 0.0, reverse=True)[:_MAX_UNCERTAIN]


def _is_open(speedup: Interval | None) -> bool:
    return speedup is not None and speedup.median > _MIN_UNCERTAIN and speedup.high > _WORTH


def _proof_candidates(search: Search, entries: Sequence[PoolEntry], best: list[PoolEntry]) -> list[PoolEntry]:
    """Returns the candidates to prove: the finalists, then earlier losers, as far as they beat the baseline."""
    source, incumbent = search.baseline, search.incumbent
    if search.goal.objective.figure is not None:
        # Without candidates that are behind the source.
        own = next((place for place, e in enumerate(best) if e.candidate == source), len(best))
        return [e for e in best[:own] if e.speedup]
    others = [e for e in entries if e not in best and e.status == "lost" and e.speedup]
    others.sort(key=lambda e: e.speedup.median if e.speedup else 0.0, reverse=True)
    # The source itself may win against the incumbent.
    minimum = 1.0 if incumbent is None else AS_FAST
    rivals = [e for e in [*best, *others] if incumbent is not None or e.candidate != source]
    return [e for e in rivals if e.speedup and e.speedup.median > minimum]
