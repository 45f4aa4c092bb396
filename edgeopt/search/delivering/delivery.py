"""What the last stage of a search works with, and how a bundle is written, proved and put in its place."""

from dataclasses import dataclass
from pathlib import Path

from edgeopt.bundle import write
from edgeopt.events import Progress
from edgeopt.measuring.timed import fill_timed
from edgeopt.processing.attach import Attached
from edgeopt.search.aim import Aim
from edgeopt.search.delivering.golden import Golden
from edgeopt.search.delivering.proving import Proving, Written, measured
from edgeopt.search.delivering.report import Case, Told, deployment_of, evidence_of, outcome_of
from edgeopt.search.delivering.steps import ledger_of, record_of
from edgeopt.search.making.made import Variants
from edgeopt.search.outcome import Candidate, Outcome, Proof
from edgeopt.search.racing.screen import Entry


@dataclass(frozen=True, slots=True)
class Delivery:
    aim: Aim
    case: Case
    proving: Proving
    golden: Golden
    attached: Attached | None
    """What the bundle is to do before and after the model."""
    variants: Variants
    entries: list[Entry]
    single_file: bool
    """The bundle becomes one file instead of a folder."""


def prove(delivery: Delivery, candidate: Candidate, folder: Path, legs: int) -> Proof:
    """Writes the bundle in a hidden folder and measures what was written, with golden samples from that."""
    proving, variants = delivery.proving, delivery.variants
    proving.notes.emit(Progress("proving", f"the written bundle: {candidate.name}"))
    files = _model_files(delivery, candidate)
    if delivery.attached is not None:
        delivery.attached.put(folder)
    described = deployment_of(delivery.case, variants, candidate)
    write.fill(folder, files, described, {}, record_of(variants, candidate))
    size_bytes = sum(file.stat().st_size for file in files.values())
    found = measured(proving, Written(folder, size_bytes, candidate.calls), legs)
    delivery.golden.put(folder, found.outputs, found.reference)
    return found.proof


def outcome_for(delivery: Delivery, winner: Candidate, proof: Proof) -> Outcome:
    """What the search found, as of now."""
    proving = delivery.proving
    told = Told(proving.notes.kept, proving.ending.cut_short, proving.ending.clock.spent_s)
    return outcome_of(delivery.case, delivery.variants, delivery.entries, winner, proof, told)


def publish(delivery: Delivery, candidate: Candidate, outcome: Outcome, folder: Path) -> Outcome:
    """Adds the evidence and puts the bundle in its place."""
    variants, proving = delivery.variants, delivery.proving
    deployment = deployment_of(delivery.case, variants, candidate, outcome.summary, evidence_of(outcome))
    documents: dict[str, object] = {"evidence.json": outcome, "ledger.json": ledger_of(variants, candidate)}
    record = record_of(variants, candidate)
    fill_timed(proving.ground.host, folder, deployment, documents, record, proving.notes.emit)
    write.publish(folder, delivery.case.out, single_file=delivery.single_file)
    return outcome


def _model_files(delivery: Delivery, candidate: Candidate) -> dict[str, Path]:
    path = delivery.variants.path(candidate.variant, candidate.backend)
    if candidate.variant == "source":
        return {path.name: path, **{name: path.parent / name for name in delivery.case.facts.external}}
    return {file.name: file for file in path.parent.iterdir() if file.is_file()}
