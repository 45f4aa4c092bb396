"""Records of a search: the outcome, its front, the plan of a candidate, the evidence."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from edgeopt import units
from edgeopt.backends.plugin import plugin_of
from edgeopt.bundle.deployment import (
    Budget,
    Evidence,
    Run,
    SourceModel,
    UnderLoad,
    six_digits,
)
from edgeopt.bundle.plan import Plan, evidence_of, limits_in
from edgeopt.bundle.write import MODEL_FOLDER
from edgeopt.graph.accuracy import accuracy_text
from edgeopt.hw.device import device_for_evidence
from edgeopt.measure.stats import EQUAL_PERCENT, IDENTICAL, TOO_FEW, TOO_NOISY, UNITY
from edgeopt.pipeline.builders.variants import Variants
from edgeopt.pipeline.inspect import Search
from edgeopt.pipeline.objectives import THROUGHPUT, Objective
from edgeopt.pipeline.outcome import (
    Candidate,
    CandidateReport,
    Outcome,
    Proof,
    VariantReport,
    Verdict,
    rival,
)
from edgeopt.pipeline.plans.recipes import recipe_named
from edgeopt.pipeline.screen import PoolEntry

EXACT_DB = 80.0
"""Accuracy in dB from which on differences are rounding alone and count as equal."""
IN_THE_RACE = ("winner", "lost")
"""Statuses that may be delivered, unlike those below the floor and those that failed."""
_WINNER = "winner"
# Smaller differences are chance or not worth a choice. Accuracy in decibels, the others as a share.
_TIME, _ACCURACY_DB, _MEMORY, _SIZE = 0.02, 1.0, 0.03, 0.01
_UNKNOWN = float("inf")


class FrontFigures(NamedTuple):
    """Figures of one candidate; times may be in any unit, as long as it is the same for all."""

    status: str
    time: float | None
    accuracy_db: float | None
    memory_bytes: int | None = None
    size_bytes: int | None = None


def front_of(candidates: Sequence[CandidateReport]) -> tuple[str, ...]:
    """Returns the names of the candidates on the front, by their speed against the baseline."""
    places = front([_figures(each) for each in candidates])
    return tuple(candidates[place].candidate.name for place in places)


def front(field: Sequence[FrontFigures]) -> list[int]:
    """Returns the places of the front, the fastest first; the winner is always in it, as it alone was proved."""
    able = [
        place
        for place, each in enumerate(field)
        if each.status in IN_THE_RACE and each.time is not None and each.accuracy_db is not None
    ]
    able.sort(key=lambda place: _losses(field[place]))
    found: list[int] = []
    for place in able:
        if field[place].status == _WINNER or not any(_covers(field[one], field[place]) for one in found):
            found.append(place)
    # Removes those whose lead in speed is within the tolerance, and that are behind in another figure.
    for place in list(found):
        others = [field[one] for one in found if one != place]
        mine = field[place]
        if mine.status != _WINNER and any(_covers(one, mine) and not _covers(mine, one) for one in others):
            found.remove(place)
    return found


def _covers(one: FrontFigures, other: FrontFigures) -> bool:
    """Whether the one is no worse than the other in any objective, within the tolerances."""
    alike = (1 + _TIME, 0.0), (1.0, _ACCURACY_DB), (1 + _MEMORY, 0.0), (1 + _SIZE, 0.0)
    return all(
        mine <= its * factor + more
        for mine, its, (factor, more) in zip(_losses(one), _losses(other), alike, strict=True)
    )


def _losses(each: FrontFigures) -> tuple[float, float, float, float]:
    """Returns the figures so that less is better in each; unknown ones are no reason to choose a candidate."""
    return (
        _UNKNOWN if each.time is None else each.time,
        -min(EXACT_DB, each.accuracy_db or 0.0),
        _UNKNOWN if each.memory_bytes is None else float(each.memory_bytes),
        _UNKNOWN if each.size_bytes is None else float(each.size_bytes),
    )


def _figures(each: CandidateReport) -> FrontFigures:
    time = 1 / each.speedup.median if each.speedup else None
    peak = each.memory.peak_bytes if each.memory else None
    return FrontFigures(each.status, time, each.accuracy_db, peak, each.size_bytes)


class SearchSummary(NamedTuple):
    """Summary of how the search went."""

    warnings: Sequence[str]
    cut_short: str
    """Time and phase of an early stop, as a sentence without its full stop."""
    seconds: float
    unproved: int = 0
    """Number of promising candidates that there was no time to prove."""


def outcome_of(
    search: Search,
    variants: Variants,
    entries: Sequence[PoolEntry],
    winner: Candidate,
    proof: Proof,
    summary: SearchSummary,
) -> Outcome:
    kept, cut_short = search.is_kept(winner), f" {summary.cut_short}." if summary.cut_short else ""
    candidates = tuple(candidate_reports(search, entries, winner, proof))
    undecided = undecided_by(proof, candidates, variants.reports, summary.unproved) if kept else ()
    found = _undecided(undecided) if undecided else _found(search, winner, proof)
    word = "Undecided" if undecided else "Keep what you have"
    return Outcome(
        model=search.request.model.name,
        model_digest=search.facts.digest,
        bundle=str(search.request.out),
        target=search.profile.name,
        verdict=_verdict(search, kept, undecided),
        objective=search.objective.name,
        summary=(f"{word}: {found}" if kept else found) + cut_short,
        floor_db=search.reference.goal.target_db or 0.0,
        goal="" if search.reference.goal.is_ratio else str(search.reference.goal),
        winner=winner,
        baseline=search.baseline,
        proof=proof,
        inputs=search.facts.inputs,
        outputs=search.facts.outputs,
        variants=tuple(variants.reports),
        candidates=candidates,
        front=front_of(candidates),
        preset=search.preset,
        cut_short=cut_short.strip(),
        warnings=(*summary.warnings, *warnings_of(proof)),
        seconds=summary.seconds,
        device=device_for_evidence(search.device),
        operators=search.facts.operators,
        imported=search.facts.imported,
        found=found + cut_short if kept else "",
        undecided=undecided,
    )


def undecided_by(
    proof: Proof, candidates: Sequence[CandidateReport], variants: Sequence[VariantReport], unproved: int = 0
) -> tuple[str, ...]:
    """Returns why something may be faster although nothing is proved; empty if nothing may be."""
    worth = 1 + EQUAL_PERCENT / 100
    reasons = []
    untried = [e.candidate.name for e in candidates if e.proof_verdict == TOO_FEW]
    named = [", ".join(untried)] if untried else []
    more = [units.count(unproved, "more promising candidate")] if unproved else []
    if named or more:
        reasons.append(f"no time was left to prove {' and '.join([*named, *more])}")
    for each in candidates:
        if each.proof_verdict == TOO_NOISY and (not each.proved or (each.speedup and each.speedup.high > worth)):
            interval = each.speedup if each.proved else units.NO_INTERVAL
            reasons.append(f"the proof of {each.candidate.name} is {TOO_NOISY} ({interval})")
    if proof.verdict in {TOO_NOISY, TOO_FEW} and not any(each.proof_verdict for each in candidates):
        reasons.append(f"the proof is {proof.verdict} ({proof.speedup})")
    late = sum(variant.late for variant in variants)
    if late:
        reasons.append(f"{units.count(late, 'variant')} not ready within the time limit")
    return tuple(reasons)


def _undecided(reasons: Sequence[str]) -> str:
    return f"{'; '.join(reasons)}. The bundle holds your model unchanged."


def _verdict(search: Search, kept: bool, undecided: Sequence[str]) -> Verdict:
    if kept:
        return "undecided" if undecided else "keep what you have"
    return "faster" if search.objective.figure is None else "better"


def warnings_of(proof: Proof) -> tuple[str, ...]:
    """Returns the warnings about the proved bundle that its figures do not show."""
    return (f"In the bundle, {proof.fallback}.",) if proof.fallback else ()


def plan_of(search: Search, variants: Variants, candidate: Candidate) -> Plan:
    """Returns the plan of a candidate's bundle: what it runs, and how that is made from the source model."""
    from edgeopt.quant.write import encoded

    file = recipe_named(candidate.variant).file or search.request.model.name
    recorded = variants.recorded(candidate)
    return Plan(
        source=SourceModel(search.request.model.name, search.facts.digest, search.facts.size_bytes),
        target=search.profile.name,
        run=Run(candidate.backend, f"{MODEL_FOLDER}/{file}", candidate.options, plugin_of(candidate.backend)),
        inputs=search.facts.inputs,
        outputs=search.facts.outputs,
        limits=limits_in(search.request.model),
        steps=variants.steps(candidate),
        processing=search.attached.processing if search.attached is not None else None,
        budget=Budget(search.floor, search.objective.name, round(search.limit_s, 1)),
        record=encoded(recorded) if recorded is not None else None,
    )


def evidence_for(outcome: Outcome) -> Evidence:
    proof = outcome.proof
    found = evidence_of(
        outcome.verdict,
        rival(outcome).name,
        (proof.baseline_ms, proof.latency_ms),
        proof.speedup,
        accuracy_db=proof.accuracy_db,
        floor_db=outcome.floor_db,
        samples=proof.samples,
    )
    load = _load(outcome, proof)
    return msgspec.structs.replace(found, measured_while=proof.measured_while, load=load)


def _load(outcome: Outcome, proof: Proof) -> UnderLoad | None:
    if outcome.objective != THROUGHPUT or proof.figure is None or proof.baseline_figure is None:
        return None
    return UnderLoad(
        outcome.winner.calls.callers,
        outcome.winner.calls.batch,
        six_digits(proof.figure),
        six_digits(proof.baseline_figure),
        proof.baseline_calls.callers,
        proof.baseline_calls.batch,
    )


def _found(search: Search, winner: Candidate, proof: Proof) -> str:
    objective, own = search.objective, search.baseline.name
    if search.is_kept(winner):
        name = own if search.request.baseline is None else search.request.baseline.name
        return f"nothing within {search.floor} is proved {_better(objective)} than {name}."
    if objective.by_sample:
        return _throughput(search, winner, proof)
    speed = f"{proof.speedup.median:.2f}x the speed of {own}"
    if not proof.speedup.usable:
        speed = f"a speed too noisy to compare with {own}"
    if proof.figure is not None and proof.baseline_figure is not None:
        minimum = f"{objective.shown(proof.figure)} instead of {objective.shown(proof.baseline_figure)}"
        return f"{objective.title[:1].upper()}{objective.title[1:]} {minimum}, at {speed}, {_accuracy(proof)}."
    times = f"({units.time_instead(proof.latency_ms, proof.baseline_ms)}), {_accuracy(proof)}."
    if proof.current is not None:
        return f"{proof.current.median:.2f}x faster than the baseline, and {speed} {times}"
    return f"{proof.speedup.median:.2f}x faster than {own} {times}"


def _throughput(search: Search, winner: Candidate, proof: Proof) -> str:
    against_incumbent = (
        f"{proof.current.median:.2f}x that of the baseline, and " if proof.current is not None else ""
    )
    shown = search.objective.shown
    figures = f"{shown(proof.figure or 0.0)} instead of {shown(proof.baseline_figure or 0.0)}"
    baseline = msgspec.structs.replace(search.baseline, calls=proof.baseline_calls)
    return (
        f"Throughput {against_incumbent}{proof.speedup.median:.2f}x that of {baseline.name} ({figures}): "
        f"run it with {winner.calls}, {units.milliseconds(proof.latency_ms)} a run; {_accuracy(proof)}."
    )


def _better(objective: Objective) -> str:
    if objective.by_sample:
        return "to have a higher throughput"
    return "faster" if objective.figure is None else f"better ({objective.title}) and not slower"


def candidate_reports(
    search: Search, entries: Sequence[PoolEntry], winner: Candidate, proof: Proof
) -> Iterator[CandidateReport]:
    """Yields each candidate with the one estimate of its speed.

    Races compare candidates with each other better than with the baseline, so a candidate that was not measured
    from a bundle is as far from the winner as in the race.
    """
    own = next((pace for e in entries if e.candidate == winner and (pace := _pace(e, entries))), None)
    scale = proof.speedup.median / own if own and not search.is_kept(winner) else 1.0
    for entry in entries:
        report = _race_report(search, proof, entry, _pace(entry, entries), scale)
        if entry.candidate == winner:
            yield delivered_report(report, proof, by_sample=search.objective.by_sample)
        else:
            yield behind_delivered(report, proof, winner, is_kept=search.is_kept(winner))


def delivered_report(report: CandidateReport, proof: Proof, *, by_sample: bool) -> CandidateReport:
    """Returns the report of the delivered candidate, with the figures of its proof."""
    return msgspec.structs.replace(
        report,
        status="winner",
        reason="",
        of_best=None,
        speedup=proof.speedup,
        proved=proof.verdict != IDENTICAL,
        latency_ms=proof.latency_ms,
        accuracy_db=proof.accuracy_db,
        memory=proof.memory or report.memory,
        throughput_per_s=proof.figure if by_sample else None,
    )


def behind_delivered(
    report: CandidateReport, proof: Proof, winner: Candidate, *, is_kept: bool
) -> CandidateReport:
    """Compares a candidate with the delivered one by the speeds shown: the best of the race may have failed."""
    if report.of_best is None or report.speedup is None:
        # Without a speed of its own, it is only known to be behind the candidate that its reason names.
        return msgspec.structs.replace(report, of_best=None)
    share = report.speedup.median / proof.speedup.median
    if is_kept and not report.proved and units.speed_difference(share) != "tied" and share > 1:
        speed = f"{report.speedup.median:.2f}x" if report.speedup.usable else "faster"
        looked = f"not proved; {speed} in the race"
        return msgspec.structs.replace(report, of_best=None, reason=looked)
    return msgspec.structs.replace(report, of_best=share, reason=units.behind(share, winner.name))


def _race_report(
    search: Search, proof: Proof, entry: PoolEntry, pace: float | None, scale: float
) -> CandidateReport:
    own = entry.speedup
    # A proof without enough processes is less certain than the race.
    proved = entry.proof is not None and entry.proof.usable and entry.candidate != search.baseline
    speedup = entry.proof if proved else None
    if entry.candidate == search.baseline:
        speedup = UNITY
    elif speedup is None and own is not None and pace is not None:
        moved = scale * pace / own.median
        speedup = msgspec.structs.replace(own, median=scale * pace, low=own.low * moved, high=own.high * moved)
    throughput_per_s = None
    # Times of the race and of the proof are not comparable, so only ratios of the race are used.
    latency_ms = proof.baseline_ms / speedup.median if speedup is not None else None
    if search.objective.by_sample:
        latency_ms = entry.latency_ms
        throughput_per_s = proof.baseline_figure * speedup.median if proof.baseline_figure and speedup else None
    return CandidateReport(
        entry.candidate,
        entry.status,
        entry.reason,
        speedup,
        latency_ms,
        entry.accuracy_db,
        entry.accuracy_low_db,
        load_ms=entry.loaded.load_ms if entry.loaded else None,
        memory=(proof.baseline_memory if entry.candidate == search.baseline else None) or entry.memory,
        size_bytes=entry.size_bytes,
        throughput_per_s=throughput_per_s,
        of_best=entry.of_best if entry.status == "lost" else None,
        proved=proved,
        proof_verdict=entry.proof_verdict,
        tokens=entry.tokens,
    )


def _pace(entry: PoolEntry, entries: Sequence[PoolEntry]) -> float | None:
    """Returns an entry's speed-up by way of the best that it ran with, which may have been behind another one."""
    if entry.lead is not None:
        best, share = entry.lead
        leader = next((e for e in entries if e.candidate == best), entry)
        ahead = _pace(leader, entries) if leader is not entry else None
        if ahead is not None:
            return ahead * share
    return entry.speedup.median if entry.speedup else None


def _accuracy(proof: Proof) -> str:
    beside = f"{proof.judged}, " if proof.judged else ""
    return f"{beside}{accuracy_text(proof.accuracy_db)}"
