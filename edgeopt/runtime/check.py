"""Whether a bundle is sound, still right, and still proved for this device."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from edgeopt.bundle.manifest import check_manifest
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.sign import PublicKey, claimed_key, verify_signature
from edgeopt.errors import VerificationError
from edgeopt.events import Emit, Progress
from edgeopt.hw.device import fingerprint
from edgeopt.hw.probe import probe
from edgeopt.runtime.golden import answer_golden
from edgeopt.runtime.session import load


class Check(msgspec.Struct, frozen=True):
    bundle: str
    files: int
    accuracy_db: float
    floor_db: float
    stale: tuple[str, ...]
    """The parts of the device's fingerprint that are not what they were."""
    signed_by: str | None = None
    """The id of the key in its signature, where there is one."""
    trusted: bool = False
    """Whether that signature was checked and is of a key that was given."""


def check(path: Path, emit: Emit, keys: Sequence[PublicKey] = ()) -> Check:
    """Raises BundleError for a damaged bundle, VerificationError for one that answers otherwise than it must.

    With keys, a bundle that none of them signed is refused too.
    """
    emit(Progress("checking digests", path.name))
    bundle = read_bundle(path)
    files = len(check_manifest(path).files)
    signed_by = verify_signature(path, keys) if keys else claimed_key(path)
    emit(Progress("running golden samples", bundle.deployment.run.backend))
    with load(path) as session:
        found = answer_golden(bundle, session)
    wrong = found.sentence(f"The bundle '{path.name}'")
    if wrong:
        raise VerificationError(wrong, "Run `edgeopt optimize` again on this device.")
    here = fingerprint(probe())
    stale = tuple(part for part, digest in bundle.deployment.device.items() if here.get(part) != digest)
    return Check(str(path), files, found.accuracy_db, found.floor_db, stale, signed_by, bool(keys))
