"""Puts a search into records: the outcome, the deployment profile, its evidence, the ledger."""

from collections.abc import Mapping
from datetime import UTC, datetime

from edgeopt.bundle.deployment import Deployment, Evidence, Run, Source, Step
from edgeopt.bundle.facts import four_digits, tensor_of
from edgeopt.bundle.write import MODEL_FOLDER
from edgeopt.graph.accuracy import decibels
from edgeopt.graph.ledger import Ledger
from edgeopt.hw.device import fingerprint
from edgeopt.search.field import Field
from edgeopt.search.lowering import NAME as LOWERED
from edgeopt.search.outcome import Candidate, CandidateReport, Outcome, Proof
from edgeopt.search.prepare import Search
from edgeopt.search.recipes import recipe_named
from edgeopt.search.screen import Entry
from edgeopt.version import __version__


def outcome_of(search: Search, field: Field, winner: Candidate, proof: Proof, seconds: float) -> Outcome:
    kept = winner == search.baseline
    return Outcome(
        model=search.settings.model.name,
        model_digest=search.facts.digest,
        bundle=str(search.settings.out),
        target=search.profile.name,
        verdict="keep what you have" if kept else "faster",
        summary=_summary(search, winner, proof),
        floor_db=search.settings.floor_db,
        winner=winner,
        baseline=search.baseline,
        proof=proof,
        inputs=search.facts.inputs,
        outputs=search.facts.outputs,
        variants=tuple(field.variants),
        candidates=tuple(_candidate_report(e) for e in field.entries),
        warnings=(*search.warnings, *warnings_of(proof)),
        seconds=seconds,
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
        steps=_steps(search, candidate, field.forms.get((candidate.variant, candidate.backend), {})),
        device=fingerprint(search.device),
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
        floor_db=search.settings.floor_db,
        samples=proof.samples,
    )


def ledger_of(field: Field, candidate: Candidate) -> Ledger:
    """The passes behind a candidate: those of its variant, after those of the cleaned model it started from."""
    return tuple(entry for v in field.variants if v.is_of(candidate) for entry in v.ledger)


def _steps(search: Search, candidate: Candidate, forms: Mapping[str, list[str]]) -> list[Step]:
    if candidate.variant == "source":
        return []
    passes = search.profile.graph.passes
    cleaning = Step("cleaned", {} if isinstance(passes, str) else {"passes": list(passes)})
    if candidate.variant == "cleaned":
        return [cleaning]
    if candidate.variant == LOWERED:
        return [cleaning, Step(LOWERED, {"lowerings": list(search.profile.lowerings[candidate.backend])})]
    quantization = search.profile.quantization
    return [
        cleaning,
        Step(
            candidate.variant,
            {
                **{form: list(layers) for form, layers in forms.items()},
                "calibration_samples": search.course.split.calibration_count,
                "activation_type": quantization.activation_type,
                "weight_type": quantization.weight_type,
                "per_channel": quantization.per_channel,
                "reduce_range": quantization.reduce_range,
                "calibration": quantization.calibration,
            },
        ),
    ]


def _summary(search: Search, winner: Candidate, proof: Proof) -> str:
    if winner == search.baseline:
        return (
            f"Keep what you have: nothing was proved faster than {search.baseline.name} "
            f"inside {search.settings.floor_db:g} dB."
        )
    return (
        f"{proof.speedup.median:.2f}x faster than {search.baseline.name} "
        f"({proof.latency_ms:.3g} ms instead of {proof.baseline_ms:.3g} ms), {_accuracy(proof)}."
    )


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
    )


def _accuracy(proof: Proof) -> str:
    return f"accuracy {decibels(proof.accuracy_db)}"
