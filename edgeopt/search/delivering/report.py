"""Puts a search into records: the outcome, the deployment profile, its evidence, the ledger."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from edgeopt.bundle.deployment import Budget, Deployment, Evidence, Run, Source, UnderLoad
from edgeopt.bundle.facts import four_digits, machine_of, tensor_of
from edgeopt.bundle.write import MODEL_FOLDER
from edgeopt.graph.accuracy import decibels
from edgeopt.graph.ledger import Ledger
from edgeopt.hw.device import device_for_evidence, fingerprint
from edgeopt.search.delivering.front import front_of
from edgeopt.search.delivering.steps import steps_of
from edgeopt.search.field import Field
from edgeopt.search.making.recipes import recipe_named
from edgeopt.search.outcome import CURRENT, Candidate, CandidateReport, Outcome, Proof
from edgeopt.search.prepare import Search
from edgeopt.search.racing.screen import Entry
from edgeopt.version import __version__


def outcome_of(search: Search, field: Field, winner: Candidate, proof: Proof, seconds: float) -> Outcome:
    kept = _is_kept(search, winner)
    found, cut_short = _found(search, winner, proof), f" {search.cut_short}." if search.cut_short else ""
    candidates = tuple(_candidate_report(e, field.entries) for e in field.entries)
    return Outcome(
        model=search.settings.model.name,
        model_digest=search.facts.digest,
        bundle=str(search.settings.out),
        target=search.profile.name,
        verdict="keep what you have" if kept else "faster" if search.objective.figure is None else "better",
        objective=search.objective.name,
        summary=(f"Keep what you have: {found}" if kept else found) + cut_short,
        floor_db=search.settings.goal.target_db or 0.0,
        goal="" if search.settings.goal.is_ratio else str(search.settings.goal),
        winner=winner,
        baseline=search.baseline,
        proof=proof,
        inputs=search.facts.inputs,
        outputs=search.facts.outputs,
        variants=tuple(field.variants),
        candidates=candidates,
        front=front_of(candidates),
        cut_short=f"{search.cut_short}." if search.cut_short else "",
        warnings=(*search.warnings, *warnings_of(proof)),
        seconds=seconds,
        device=device_for_evidence(search.device),
        operators=search.facts.operators,
        found=(found if kept else "") + (cut_short if kept else ""),
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
        processing=search.attached.processing if search.attached is not None else None,
        budget=Budget(_floor(search), search.objective.name, round(search.limit_s, 1)),
        device=fingerprint(search.device),
        machine=machine_of(search.device),
        runtimes={r.name: r.version for r in search.device.runtimes},
        evidence=evidence,
    )


def evidence_of(search: Search, proof: Proof, outcome: Outcome) -> Evidence:
    return Evidence(
        verdict=outcome.verdict,
        baseline=msgspec.structs.replace(search.baseline, calls=proof.baseline_calls).name,
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
        load=_load(search, outcome, proof),
    )


def _load(search: Search, outcome: Outcome, proof: Proof) -> UnderLoad | None:
    if not search.objective.by_sample or proof.figure is None or proof.baseline_figure is None:
        return None
    return UnderLoad(
        outcome.winner.calls.callers,
        outcome.winner.calls.batch,
        four_digits(proof.figure),
        four_digits(proof.baseline_figure),
        proof.baseline_calls.callers,
        proof.baseline_calls.batch,
    )


def ledger_of(field: Field, candidate: Candidate) -> Ledger:
    """The passes behind a candidate: those of its variant, after those of the cleaned model it started from."""
    return tuple(entry for v in field.variants if v.is_of(candidate) for entry in v.ledger)


def _found(search: Search, winner: Candidate, proof: Proof) -> str:
    if _is_kept(search, winner):
        name = search.settings.baseline.name if search.settings.baseline is not None else search.baseline.name
        return f"nothing was proved {_better(search)} than {name} inside {_floor(search)}."
    objective = search.objective
    if objective.by_sample:
        return _throughput(search, winner, proof)
    if proof.figure is not None and proof.baseline_figure is not None:
        least = f"{objective.shown(proof.figure)} instead of {objective.shown(proof.baseline_figure)}"
        speed = f"{proof.speedup.median:.2f}x the speed of {search.baseline.name}"
        return f"{objective.title[:1].upper()}{objective.title[1:]} {least}, at {speed}, {_accuracy(proof)}."
    times = f"({proof.latency_ms:.3g} ms instead of {proof.baseline_ms:.3g} ms), {_accuracy(proof)}."
    if proof.current is not None:
        speed = f"{proof.speedup.median:.2f}x the speed of {search.baseline.name}"
        return f"{proof.current.median:.2f}x faster than what runs today, and {speed} {times}"
    return f"{proof.speedup.median:.2f}x faster than {search.baseline.name} {times}"


def _throughput(search: Search, winner: Candidate, proof: Proof) -> str:
    today = f"{proof.current.median:.2f}x that of what runs today, and " if proof.current is not None else ""
    shown = search.objective.shown
    figures = f"{shown(proof.figure or 0.0)} instead of {shown(proof.baseline_figure or 0.0)}"
    baseline = msgspec.structs.replace(search.baseline, calls=proof.baseline_calls)
    return (
        f"Throughput {today}{proof.speedup.median:.2f}x that of {baseline.name} ({figures}): "
        f"run it with {winner.calls}, {proof.latency_ms:.3g} ms a run; {_accuracy(proof)}."
    )


def _is_kept(search: Search, winner: Candidate) -> bool:
    """Where a bundle runs today, that is what is kept, and the source itself may win against it."""
    return winner.variant == CURRENT or (winner == search.baseline and search.current is None)


def _better(search: Search) -> str:
    objective = search.objective
    if objective.by_sample:
        return "to give more throughput"
    return "faster" if objective.figure is None else f"better ({objective.title}) and not slower"


def _pace(entry: Entry, entries: Sequence[Entry]) -> float | None:
    leader = next((e for e in entries if e.candidate == entry.led_by), entry)
    ahead = _pace(leader, entries) if leader is not entry else None
    if ahead is not None and entry.share is not None:
        return ahead * entry.share
    return entry.speedup.median if entry.speedup else None


def _candidate_report(entry: Entry, entries: Sequence[Entry]) -> CandidateReport:
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
        entry.throughput_per_s,
        _pace(entry, entries),
        entry.of_best if entry.status == "lost" else None,
    )


def _floor(search: Search) -> str:
    goal = search.settings.goal
    return f"{goal.floor:g} dB" if goal.is_ratio else str(goal)


def _accuracy(proof: Proof) -> str:
    beside = f"{proof.judged}, " if proof.judged else ""
    return f"{beside}accuracy {decibels(proof.accuracy_db)}"
