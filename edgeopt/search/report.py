"""Puts a search into records: the outcome, the deployment profile, its evidence, the ledger."""

from datetime import UTC, datetime

from edgeopt.bundle.deployment import Budget, Deployment, Evidence, Run, Source
from edgeopt.bundle.facts import four_digits, machine_of, tensor_of
from edgeopt.bundle.write import MODEL_FOLDER
from edgeopt.graph.accuracy import decibels
from edgeopt.graph.ledger import Ledger
from edgeopt.hw.device import device_for_evidence, fingerprint
from edgeopt.search.field import Field
from edgeopt.search.outcome import CURRENT, Candidate, CandidateReport, Outcome, Proof
from edgeopt.search.prepare import Search
from edgeopt.search.recipes import recipe_named
from edgeopt.search.screen import Entry
from edgeopt.search.steps import steps_of
from edgeopt.version import __version__


def outcome_of(search: Search, field: Field, winner: Candidate, proof: Proof, seconds: float) -> Outcome:
    kept = _is_kept(search, winner)
    return Outcome(
        model=search.settings.model.name,
        model_digest=search.facts.digest,
        bundle=str(search.settings.out),
        target=search.profile.name,
        verdict="keep what you have" if kept else "faster" if search.objective.figure is None else "better",
        objective=search.objective.name,
        summary=_summary(search, winner, proof),
        floor_db=search.settings.goal.target_db or 0.0,
        goal="" if search.settings.goal.is_ratio else str(search.settings.goal),
        winner=winner,
        baseline=search.baseline,
        proof=proof,
        inputs=search.facts.inputs,
        outputs=search.facts.outputs,
        variants=tuple(field.variants),
        candidates=tuple(_candidate_report(e) for e in field.entries),
        warnings=(*search.warnings, *warnings_of(proof)),
        seconds=seconds,
        device=device_for_evidence(search.device),
        operators=search.facts.operators,
    )


def warnings_of(proof: Proof) -> tuple[str, ...]:
    """What there is to say of the bundle that was proved, beside its figures."""
    return (f"Of the bundle, {proof.fallback}.",) if proof.fallback else ()


def deployment_of(
    search: Search,
    field: Field,
    candidate: Candidate,
    summary: str = "not proved yet",
    evidence: Evidence | None = None,
) -> Deployment:
    file = recipe_named(candidate.variant).file or search.settings.model.name
    return Deployment(
        name=search.settings.model.stem,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        edgeopt=__version__,
        target=search.profile.name,
        summary=summary,
        source=Source(search.settings.model.name, search.facts.digest, search.facts.size_bytes),
        run=Run(candidate.backend, f"{MODEL_FOLDER}/{file}", candidate.options),
        inputs=[tensor_of(i) for i in search.facts.inputs],
        outputs=[tensor_of(o) for o in search.facts.outputs],
        steps=steps_of(search, field, candidate),
        budget=Budget(_floor(search), time_limit_s=round(search.limit_s, 1)),
        device=fingerprint(search.device),
        machine=machine_of(search.device),
        runtimes={r.name: r.version for r in search.device.runtimes},
        evidence=evidence,
    )


def evidence_of(search: Search, proof: Proof, outcome: Outcome) -> Evidence:
    return Evidence(
        verdict=outcome.verdict,
        baseline=search.baseline.name,
        baseline_ms=four_digits(proof.baseline_ms),
        latency_ms=four_digits(proof.latency_ms),
        speedup=four_digits(proof.speedup.median),
        speedup_low=four_digits(proof.speedup.low),
        speedup_high=four_digits(proof.speedup.high),
        rounds=proof.speedup.rounds,
        accuracy_db=round(proof.accuracy_db, 1),
        floor_db=search.settings.goal.target_db or 0.0,
        samples=proof.samples,
        measured_while=proof.measured_while,
    )


def ledger_of(field: Field, candidate: Candidate) -> Ledger:
    """The passes behind a candidate: those of its variant, after those of the cleaned model it started from."""
    return tuple(entry for v in field.variants if v.is_of(candidate) for entry in v.ledger)


def _summary(search: Search, winner: Candidate, proof: Proof) -> str:
    if _is_kept(search, winner):
        name = search.settings.baseline.name if search.settings.baseline is not None else search.baseline.name
        nothing = f"nothing was proved {_better(search)} than {name}"
        return f"Keep what you have: {nothing} inside {_floor(search)}."
    objective = search.objective
    if proof.figure is not None and proof.baseline_figure is not None:
        least = f"{objective.shown(proof.figure)} instead of {objective.shown(proof.baseline_figure)}"
        speed = f"{proof.speedup.median:.2f}x the speed of {search.baseline.name}"
        return f"{objective.title[:1].upper()}{objective.title[1:]} {least}, at {speed}, {_accuracy(proof)}."
    times = f"({proof.latency_ms:.3g} ms instead of {proof.baseline_ms:.3g} ms), {_accuracy(proof)}."
    if proof.current is not None:
        speed = f"{proof.speedup.median:.2f}x the speed of {search.baseline.name}"
        return f"{proof.current.median:.2f}x faster than what runs today, and {speed} {times}"
    return f"{proof.speedup.median:.2f}x faster than {search.baseline.name} {times}"


def _is_kept(search: Search, winner: Candidate) -> bool:
    """Where a bundle runs today, that is what is kept, and the source itself may win against it."""
    return winner.variant == CURRENT or (winner == search.baseline and search.current is None)


def _better(search: Search) -> str:
    objective = search.objective
    return "faster" if objective.figure is None else f"better ({objective.title}) and not slower"


def _candidate_report(entry: Entry) -> CandidateReport:
    loaded = entry.loaded
    return CandidateReport(
        entry.candidate,
        entry.status,
        entry.reason,
        entry.speedup,
        entry.latency_ms,
        entry.accuracy_db,
        entry.accuracy_low_db,
        loaded.load_ms if loaded else None,
        entry.memory,
        entry.size_bytes,
    )


def _floor(search: Search) -> str:
    goal = search.settings.goal
    return f"{goal.floor:g} dB" if goal.is_ratio else str(goal)


def _accuracy(proof: Proof) -> str:
    beside = f"{proof.judged}, " if proof.judged else ""
    return f"{beside}accuracy {decibels(proof.accuracy_db)}"
