"""Whether a bundle is sound, still right, and still proved for this device."""

from pathlib import Path

import msgspec

from edgeopt.bundle.manifest import check_manifest
from edgeopt.bundle.read import read_bundle
from edgeopt.errors import VerificationError
from edgeopt.events import Emit, Progress
from edgeopt.graph.verify import compare_outputs
from edgeopt.hw.device import fingerprint
from edgeopt.hw.probe import probe
from edgeopt.runtime.session import load

# Other processors round otherwise.
_LEEWAY_DB = 1.0
_FEW_SAMPLES_DB = 6.0


class Check(msgspec.Struct, frozen=True):
    bundle: str
    files: int
    accuracy_db: float
    floor_db: float
    stale: tuple[str, ...]
    """The parts of the device's fingerprint that are not what they were."""


def check(path: Path, emit: Emit) -> Check:
    """Raises BundleError for a damaged bundle, VerificationError for one that answers otherwise than it must."""
    emit(Progress("checking digests", path.name))
    bundle = read_bundle(path)
    files = len(check_manifest(path).files)
    emit(Progress("running golden samples", bundle.deployment.run.backend))
    with load(path) as session:
        outputs = [session.run(feeds) for feeds in bundle.golden("inputs")]
    reference = bundle.golden("reference")
    accuracy = compare_outputs(reference, outputs)
    evidence = bundle.deployment.evidence
    # These few samples may lie below a floor that all of the proof's together reached; what they gave then is
    # enough now, within reason.
    proved_db = evidence.floor_db if evidence else 0.0
    then_db = compare_outputs(reference, bundle.golden("outputs")).snr_db
    floor_db = max(min(proved_db, then_db - _LEEWAY_DB), proved_db - _FEW_SAMPLES_DB)
    if accuracy.problem or accuracy.snr_db < floor_db:
        raise VerificationError(
            f"The bundle '{path.name}' answers its golden samples with {accuracy.snr_db:.1f} dB; it must reach "
            f"{floor_db:g} dB. {accuracy.problem or ''}".strip(),
            "Run `edgeopt optimize` again on this device.",
        )
    here = fingerprint(probe())
    stale = tuple(part for part, digest in bundle.deployment.device.items() if here.get(part) != digest)
    return Check(str(path), files, accuracy.snr_db, floor_db, stale)
