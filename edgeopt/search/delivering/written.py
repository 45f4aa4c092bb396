"""Bundles are written in a hidden folder and moved to their place when they are delivered."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from edgeopt.bundle import write
from edgeopt.bundle.deployment import Deployment
from edgeopt.events import Progress
from edgeopt.measure.stages import fill_timed
from edgeopt.search.delivering.delivery import Delivery, Raced
from edgeopt.search.delivering.proving import Means, Written
from edgeopt.search.delivering.report import deployment_of, evidence_of
from edgeopt.search.delivering.steps import ledger_of, record_of
from edgeopt.search.making.made import Variants
from edgeopt.search.outcome import Candidate, Outcome


class Documents(NamedTuple):
    """What a bundle says of itself."""

    deployment: Deployment
    others: dict[str, object]
    record: bytes | None = None
    """What calibration found."""


@contextmanager
def written(delivery: Delivery, raced: Raced, candidate: Candidate) -> Iterator[Written]:
    """The bundle of a candidate, in a hidden folder that is gone afterwards unless it was published."""
    variants, record = raced.variants, record_of(raced.variants, candidate)
    files = _model_files(delivery, variants, candidate)
    size_bytes = sum(file.stat().st_size for file in files.values())
    described = deployment_of(delivery.case, variants, candidate)
    raced.means.notes.emit(Progress("proving", f"the written bundle: {candidate.name}"))
    with write.draft(delivery.case.out) as folder:
        if delivery.attached is not None:
            delivery.attached.put(folder)
        write.fill(folder, files, described, {}, record)
        yield Written(folder, size_bytes, candidate.calls, record)


def hand_out(delivery: Delivery, raced: Raced, bundle: Written, winner: Candidate, outcome: Outcome) -> Outcome:
    """Adds the evidence and puts the bundle in its place."""
    variants, evidence = raced.variants, evidence_of(outcome)
    deployment = deployment_of(delivery.case, variants, winner, outcome.summary, evidence)
    documents: dict[str, object] = {"evidence.json": outcome, "ledger.json": ledger_of(variants, winner)}
    publish(delivery, raced.means, bundle.folder, Documents(deployment, documents, bundle.record))
    return outcome


def publish(delivery: Delivery, means: Means, folder: Path, told: Documents | None) -> None:
    """Puts a bundle in its place; `told`: None for one that says already what it is to say."""
    if told is not None:
        fill_timed(means.ground.host, folder, told.deployment, told.others, told.record, means.notes.emit)
    write.publish(folder, delivery.case.out, single_file=delivery.single_file)


def _model_files(delivery: Delivery, variants: Variants, candidate: Candidate) -> dict[str, Path]:
    path = variants.path(candidate.variant, candidate.backend)
    if candidate.variant == "source":
        return {path.name: path, **{name: path.parent / name for name in delivery.case.facts.external}}
    return {file.name: file for file in path.parent.iterdir() if file.is_file()}
