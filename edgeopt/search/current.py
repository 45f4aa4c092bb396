"""What the user runs today, where that is a bundle: the winner must beat it too, or it is kept as it is."""

import shutil
import time

from edgeopt.bundle import write
from edgeopt.bundle.read import Bundle
from edgeopt.events import Progress
from edgeopt.search.field import Field
from edgeopt.search.outcome import CURRENT, Candidate, Outcome
from edgeopt.search.prepare import Search
from edgeopt.search.proving import measured
from edgeopt.search.report import outcome_of


def keep_current(search: Search, field: Field, current: Bundle, begin: float) -> Outcome:
    """Measures it against the source, and puts a copy of it in the bundle's place, its evidence as it was."""
    search.emit(Progress("proving", "what runs today"))
    run = current.deployment.run
    size_bytes = sum(file.stat().st_size for file in current.model.parent.iterdir() if file.is_file())
    proof = measured(search, current.folder, size_bytes, looks=1).proof
    if not proof.met:
        search.warn(f"What runs today reaches {proof.accuracy_db:.1f} dB on samples set aside: below the floor.")
    kept = Candidate(CURRENT, run.backend, run.options)
    outcome = outcome_of(search, field, kept, proof, time.monotonic() - begin)
    with write.draft(search.settings.out) as folder:
        shutil.copytree(current.folder, folder, dirs_exist_ok=True)
        write.publish(folder, search.settings.out, single_file=search.settings.single_file)
    return outcome
