"""What the user runs today: the winner must beat it too, or it is kept as it is."""

import shutil
import time
from pathlib import Path

import msgspec

from edgeopt.bench.legs import SHORT_FEWEST
from edgeopt.bundle import write
from edgeopt.bundle.facts import machine_of
from edgeopt.bundle.read import Bundle
from edgeopt.events import Progress
from edgeopt.hw.device import fingerprint
from edgeopt.measuring.timed import fill_timed
from edgeopt.processing.attach import Attached
from edgeopt.search.delivering.proving import Proved, measured, put_golden
from edgeopt.search.delivering.report import evidence_of, outcome_of
from edgeopt.search.delivering.today import is_wrapped
from edgeopt.search.field import Field
from edgeopt.search.outcome import CURRENT, Candidate, Outcome
from edgeopt.search.prepare import Search


def keep_current(search: Search, field: Field, current: Bundle, begin: float) -> Outcome:
    """Measures it against the source, and puts a copy of it in the bundle's place.

    The evidence of a bundle stays as it was; what was a model gets what was measured now, and its processing.
    """
    search.emit(Progress("proving", "what runs today"))
    run, given = current.deployment.run, search.settings.baseline
    size_bytes = sum(file.stat().st_size for file in current.model.parent.iterdir() if file.is_file())
    found = measured(search, current.folder, size_bytes, SHORT_FEWEST)
    proof = found.proof
    if not proof.met:
        search.warn(f"What runs today reaches {proof.accuracy_db:.1f} dB on samples set aside: below the floor.")
    made_here = given is not None and is_wrapped(current, given)
    if search.attached is not None and not made_here and not _processes(current, search.attached):
        search.warn("What runs today is kept as it is: --pre and --post are not what its bundle does.")
    kept = Candidate(CURRENT, run.backend, run.options, search.baseline.calls)
    with write.draft(search.settings.out) as folder:
        shutil.copytree(current.folder, folder, dirs_exist_ok=True)
        if made_here:
            if search.attached is not None:
                search.attached.put(folder)
            put_golden(search, folder, found)
        outcome = outcome_of(search, field, kept, proof, time.monotonic() - begin)
        if made_here:
            _tell(search, current, found, outcome, folder)
        write.publish(folder, search.settings.out, single_file=search.settings.single_file)
    return outcome


def _processes(current: Bundle, attached: Attached) -> bool:
    """Whether the bundle does just that already."""
    told = current.deployment.processing
    return told is not None and msgspec.structs.replace(told, times=None) == attached.processing


def _tell(search: Search, current: Bundle, found: Proved, outcome: Outcome, folder: Path) -> None:
    device = search.device
    deployment = msgspec.structs.replace(
        current.deployment,
        target=search.profile.name,
        summary=outcome.summary,
        device=fingerprint(device),
        machine=machine_of(device),
        runtimes={each.name: each.version for each in device.runtimes},
        evidence=evidence_of(search, found.proof, outcome),
        processing=None if search.attached is None else search.attached.processing,
    )
    documents: dict[str, object] = {"evidence.json": outcome, "ledger.json": ()}
    fill_timed(search.course.host, folder, deployment, documents, None, search.emit)
