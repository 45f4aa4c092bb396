"""The golden samples of a rebuilt bundle: those of the first one, or fresh ones, answered by the rebuilt model."""

import shutil

import msgspec

from edgeopt.bundle import write
from edgeopt.bundle.golden import golden_floor_db
from edgeopt.bundle.read import Bundle
from edgeopt.commands.replay.work import GOLDEN_SAMPLES, Work
from edgeopt.errors import MissingError, VerificationError
from edgeopt.events import Progress
from edgeopt.graph.accuracy import compare_outputs

# Two runs of the same computation differ by the order in which threads add, and by nothing else.
_ALIKE_DB = 80.0
_OPTIMIZE = "Run `edgeopt optimize` on this device."


class Answered(msgspec.Struct, frozen=True):
    alike_db: float | None = None
    """Against the outputs of the first bundle; None where there are none, or the backend cannot be used here."""
    accuracy_db: float | None = None
    """Against the source model."""
    floor_db: float | None = None
    own_answers: bool = False
    """They are generated, and compared with the model's own answers."""


def put_golden(work: Work, same: bool) -> Answered:
    """Raises VerificationError where the rebuilt model is too far from the source."""
    bundle = work.profile.bundle
    work.emit(Progress("running golden samples", work.run.backend))
    if bundle is None:
        return _fresh(work, same)
    shutil.copytree(bundle.folder / "golden", work.folder / "golden")
    found = Bundle(work.folder, work.deployment)
    try:
        outputs = work.answers(found.golden("inputs"))
    except MissingError as error:
        if not same:
            raise
        work.warn(f"The golden samples were not run, because the backend is not available: {error.message}")
        return Answered()
    accuracy, floor_db = compare_outputs(found.golden("reference"), outputs), golden_floor_db(found)
    if accuracy.problem or accuracy.snr_db < floor_db:
        raise _too_far(accuracy.snr_db, len(outputs), floor_db, accuracy.problem, _OPTIMIZE)
    alike = compare_outputs(found.golden("outputs"), outputs)
    if alike.snr_db < _ALIKE_DB:
        work.warn(
            f"The golden outputs differ from those of the first bundle ({alike.snr_db:.1f} dB): other "
            "processors and runtimes round differently. Compared with the source model they are within "
            "the floor."
        )
    return Answered(alike.snr_db, accuracy.snr_db, floor_db)


def _fresh(work: Work, same: bool) -> Answered:
    made_up = work.request.data is None
    feeds, reference = work.last_samples(work.samples(), GOLDEN_SAMPLES)
    outputs = work.answers(feeds)
    accuracy = compare_outputs(reference, outputs)
    near = not accuracy.problem and accuracy.snr_db >= work.needed_db
    if not near and not (made_up and same):
        hint = (
            "These samples are generated, which says little: pass real ones with --data." if made_up else _OPTIMIZE
        )
        raise _too_far(accuracy.snr_db, len(outputs), work.needed_db, accuracy.problem, hint)
    if made_up:
        said = "" if near else ", and only show whether a device computes the same"
        work.warn(f"The profile comes without golden samples: they are made up{said}. --data takes real ones.")
    for name, runs in (("inputs", feeds), ("reference", reference if near else outputs), ("outputs", outputs)):
        write.write_golden(work.folder, name, runs)
    return Answered(None, accuracy.snr_db, work.needed_db) if near else Answered(own_answers=True)


def _too_far(reached_db: float, count: int, floor_db: float, problem: str | None, hint: str) -> VerificationError:
    said = f"The rebuilt model reaches {reached_db:.1f} dB on {count} samples; it needs {floor_db:g} dB."
    return VerificationError(f"{said} {problem or ''}".strip(), hint)
