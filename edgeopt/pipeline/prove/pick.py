"""Delivery of another candidate of a finished search, without searching again."""

import msgspec

from edgeopt import units
from edgeopt.data.judging.goals import ACCEPT
from edgeopt.errors import UsageError, VerificationError
from edgeopt.graph.accuracy import accuracy_text, decibels
from edgeopt.measure.schedules import PROOF
from edgeopt.nearest import near
from edgeopt.pipeline.objectives import THROUGHPUT, objective_named
from edgeopt.pipeline.outcome import Candidate, CandidateReport, Outcome, Proof, in_order
from edgeopt.pipeline.plans.gathering import VariantBuilder
from edgeopt.pipeline.prove.deliver import outcome_for, prove, publish_proved
from edgeopt.pipeline.prove.proving import MissedFloor, UnprovenFloor, written
from edgeopt.pipeline.prove.report import EXACT_DB, IN_THE_RACE, behind_delivered, delivered_report
from edgeopt.pipeline.screen import CandidatePool

# Smaller differences, as a share of the winner's figure, are not reported.
_COUNTS = 0.01


def pick(pool: CandidatePool, builder: VariantBuilder, candidate: Candidate, known: Outcome) -> Outcome:
    """Makes, proves and writes the picked candidate; raises VerificationError if it does not hold."""
    _build(pool, builder, candidate)
    with written(pool, candidate) as bundle:
        try:
            proof = prove(pool.search, pool.resources, bundle, PROOF.legs[0])
        except MissedFloor as missed:
            message = f"{candidate.name} reaches {missed} on the samples of the proof: below the floor."
            raise VerificationError(message, "Pick another one, or lower the floor.") from None
        except UnprovenFloor as unproven:
            raise VerificationError(
                f"{candidate.name}: {unproven}.",
                f"Give more samples or a larger limit, or accept it with {ACCEPT}.",
                [ACCEPT],
            ) from None
        found = _found(candidate, proof, known)
        outcome = msgspec.structs.replace(
            outcome_for(pool, candidate, proof),
            verdict="picked",
            summary=f"Picked: {found}",
            found=found,
            variants=known.variants,
            candidates=tuple(
                _after(report, candidate, proof, by_sample=pool.search.objective.by_sample)
                for report in in_order(known)
            ),
            front=known.front,
            is_cached=known.is_cached,
        )
        return publish_proved(pool, bundle, candidate, outcome)


def _build(pool: CandidatePool, builder: VariantBuilder, candidate: Candidate) -> None:
    """Builds the variant that the candidate runs and its bases; raises VerificationError if it cannot be built."""
    variants = builder.variants
    for part in builder.only(candidate.variant, pool.configs_to_plan()):
        for _ in part:
            """No candidate races: each is only made."""
    if variants.has(candidate.variant, candidate.backend):
        return
    reasons = [v.failure.rstrip(".") for v in variants.reports if v.name == candidate.variant and v.failure]
    raise VerificationError(f"{candidate.name} cannot be reproduced: {'; '.join(reasons)}.", "Search again.")


def find_candidate(known: Outcome, name: str) -> Candidate:
    """Returns the candidate of this name; raises UsageError if there is none, or if it cannot be delivered."""
    listed = in_order(known)
    if name.isdecimal() and 1 <= int(name) <= len(listed):
        name = listed[int(name) - 1].candidate.name
    able = {c.candidate.name: c.candidate for c in known.candidates if c.status in IN_THE_RACE}
    if name in able:
        return able[name]
    out = next((c for c in known.candidates if c.candidate.name == name), None)
    if out is not None:
        raise UsageError(f"{name} cannot be delivered: {out.status}, {out.reason}.", "Pick another one.")
    meant = near(name, able, 3, 0.3) or list(able)[:3]
    raise UsageError(f"The search has no candidate '{name}'.", f"There are: {'; '.join(meant)}.")


def _after(report: CandidateReport, picked: Candidate, proof: Proof, *, by_sample: bool) -> CandidateReport:
    if report.candidate == picked:
        return delivered_report(report, proof, by_sample=by_sample)
    if report.status == "winner":
        reason = "it won the search; another one was picked"
        return msgspec.structs.replace(report, status="lost", reason=reason, of_best=None)
    return behind_delivered(report, proof, picked, is_kept=False)


def _found(picked: Candidate, proof: Proof, known: Outcome) -> str:
    what, figures = "speed", units.time_instead(proof.latency_ms, proof.baseline_ms)
    if known.objective == THROUGHPUT and proof.figure and proof.baseline_figure:
        shown = objective_named(THROUGHPUT).shown
        what, figures = "throughput", f"{shown(proof.figure)} instead of {shown(proof.baseline_figure)}"
    speed = f"{proof.speedup.median:.2f}x the {what} of" if proof.speedup.usable else "too noisy to tell against"
    rival = msgspec.structs.replace(known.baseline, calls=proof.baseline_calls)
    text = f"{picked.name}, {speed} {rival.name} ({figures}), {accuracy_text(proof.accuracy_db)}."
    traded = _traded(picked, proof, known)
    return f"{text} Compared with the winner of the search: {', '.join(traded)}." if traded else text


def _traded(picked: Candidate, proof: Proof, known: Outcome) -> list[str]:
    """Describes the relevant differences of the picked candidate from the winner; empty for the winner itself."""
    if picked == known.winner:
        return []
    before = known.proof
    difference = units.speed_difference(proof.speedup.median / before.speedup.median)
    found = [] if difference == "tied" or not (proof.speedup.usable and before.speedup.usable) else [difference]
    now_db, then_db = proof.accuracy_db, before.accuracy_db
    if abs(min(EXACT_DB, now_db) - min(EXACT_DB, then_db)) >= 1:
        found.append(f"{decibels(now_db)} instead of {decibels(then_db)}")
    sizes = {report.candidate.name: report.size_bytes for report in known.candidates}
    pairs = [
        ("memory", proof.memory and proof.memory.peak_bytes, before.memory and before.memory.peak_bytes),
        ("in files", sizes.get(picked.name), sizes.get(known.winner.name)),
    ]
    for what, now, then in pairs:
        if now and then and abs(now - then) >= _COUNTS * then:
            size = units.size(abs(now - then))
            found.append(f"{size} {'more' if now > then else 'less'} {what}")
    return found or ["no relevant difference"]
