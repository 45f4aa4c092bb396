"""What the user runs today: the winner must beat it too, or it is kept as it is."""

import dataclasses
import shutil

import msgspec

from edgeopt.bundle import write
from edgeopt.bundle.deployment import Deployment, machine_of
from edgeopt.bundle.processing.attach import Attached
from edgeopt.bundle.read import Bundle
from edgeopt.events import Progress
from edgeopt.hw.device import fingerprint
from edgeopt.measure.legs import FEWEST
from edgeopt.search.delivering.delivery import Delivery, Raced, outcome_for
from edgeopt.search.delivering.proving import Written, measured
from edgeopt.search.delivering.report import Case, evidence_of
from edgeopt.search.delivering.written import Documents, publish
from edgeopt.search.outcome import CURRENT, Candidate, Outcome
from edgeopt.search.today import is_wrapped


def keep_current(delivery: Delivery, raced: Raced, current: Bundle) -> Outcome:
    """Measures it against the source, and puts a copy of it in the bundle's place.

    The evidence of a bundle stays as it was; what was a model gets what was measured now, and its processing.
    """
    case, run, means, proving = delivery.case, current.deployment.run, raced.means, delivery.proving
    notes = means.notes
    notes.emit(Progress("proving", "what runs today"))
    size_bytes = sum(file.stat().st_size for file in current.model.parent.iterdir() if file.is_file())
    alone = dataclasses.replace(proving, rivals=proving.rivals._replace(today=None))
    found = measured(alone, means, Written(current.folder, size_bytes, case.baseline.calls), FEWEST)
    if not found.proof.met:
        notes.warn(f"The baseline reaches {found.proof.accuracy_db:.1f} dB on samples set aside: below the floor.")
    made_here = is_wrapped(current, means.ground.folder)
    if delivery.attached is not None and not made_here and not _processes(current, delivery.attached):
        notes.warn("The baseline is kept unchanged: its bundle does not apply this --pre and --post.")
    kept = Candidate(CURRENT, run.backend, run.options, case.baseline.calls)
    with write.draft(case.out) as folder:
        shutil.copytree(current.folder, folder, dirs_exist_ok=True)
        if made_here:
            if delivery.attached is not None:
                delivery.attached.put(folder)
            delivery.golden.put(folder, found.outputs, found.reference, notes)
        outcome = outcome_for(delivery, raced, kept, found.proof)
        told = Documents(_deployment(current, case, outcome), {"evidence.json": outcome, "ledger.json": ()})
        publish(delivery, means, folder, told if made_here else None)
    return outcome


def _processes(current: Bundle, attached: Attached) -> bool:
    """Whether the bundle does just that already."""
    told = current.deployment.processing
    return told is not None and msgspec.structs.replace(told, times=None) == attached.processing


def _deployment(current: Bundle, case: Case, outcome: Outcome) -> Deployment:
    return msgspec.structs.replace(
        current.deployment,
        target=case.profile.name,
        summary=outcome.summary,
        device=fingerprint(case.device),
        machine=machine_of(case.device),
        runtimes={each.name: each.version for each in case.device.runtimes},
        evidence=evidence_of(outcome),
        processing=case.processing,
    )
