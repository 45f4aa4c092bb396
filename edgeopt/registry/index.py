"""Indexes of bundles: one address for devices of several kinds, as an OCI image index."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from edgeopt.bundle.deployment import system_of
from edgeopt.errors import BundleError, printable
from edgeopt.hw.device import differing_parts
from edgeopt.registry.documents import (
    ARTIFACT,
    INDEX,
    MANIFEST,
    RELEASE,
    TARGET,
    Descriptor,
    OciIndex,
    Platform,
    bundle_annotations,
    decode,
    is_sha256,
)

if TYPE_CHECKING:
    from edgeopt.bundle.read import Bundle

MACHINE = "dev.edgeopt.machine"
"""Annotation that describes the device of a bundle for people."""
DEVICE = "dev.edgeopt.device."
"""Beginning of the annotations with the fingerprint of the device, one for each part."""
MAX_BUNDLES = 1000
_MAX_DESCRIBED = 8
"""Most bundles that an error names."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386", "AMD64": "amd64"}
"""Architectures by their names in Go, where these differ."""


def index_entry(bundle: "Bundle", digest: str, size_bytes: int) -> Descriptor:
    """Describes a bundle in an index: its manifest, and the device that it was proved on."""
    deployment = bundle.deployment
    annotations = {
        **bundle_annotations(bundle),
        MACHINE: "; ".join(deployment.machine.values()),
        **{f"{DEVICE}{part}": digits for part, digits in deployment.device.items()},
    }
    system = system_of(deployment)
    platform = Platform(_ARCHITECTURES.get(system[1], system[1]), system[0].lower()) if system else None
    return Descriptor(MANIFEST, digest, size_bytes, annotations, ARTIFACT, platform)


def index_of(entries: tuple[Descriptor, ...]) -> bytes:
    return msgspec.json.encode(
        OciIndex(schema_version=2, media_type=INDEX, artifact_type=ARTIFACT, manifests=entries)
    )


def is_index(content: bytes, called: str) -> bool:
    return decode(content, OciIndex, called).media_type == INDEX


def choose_entry(content: bytes, here: Mapping[str, str], called: str, target: str = "") -> Descriptor:
    """Returns the entry of an index that fits the device with this fingerprint; raises BundleError if none does.

    Of several, the one whose device has the most parts in common is chosen, then the first one. A target that only
    one entry has needs no fitting device.
    """
    listed = decode(content, OciIndex, called).manifests
    entries = [each for each in listed if RELEASE in each.annotations and is_sha256(each.digest)]
    if not entries or len(listed) > MAX_BUNDLES:
        raise BundleError(
            f"{called} is not an index of bundles.", "Write one with: edgeopt push A B oci://HOST/REPOSITORY:TAG"
        )
    named = [each for each in entries if target in {"", each.annotations.get(TARGET)}]
    fitting = [each for each in named if not differing_parts(device_of(each), dict(here))]
    if not fitting and target and len(named) == 1:
        return named[0]
    if not fitting:
        which = f" of the target '{printable(target)}'" if target else ""
        which += " that fits this device" if named else ""
        raise BundleError(
            f"{called} has no bundle{which}. It has: {_described(entries)}.",
            "Name one by its digest, oci://HOST/REPOSITORY@sha256:…, or push one that was made on such a device.",
        )
    return max(fitting, key=lambda each: sum(here.get(part) == digits for part, digits in device_of(each).items()))


def device_of(entry: Descriptor) -> dict[str, str]:
    """Returns the fingerprint of the device that the bundle of an entry was proved on."""
    found = entry.annotations.items()
    return {name.removeprefix(DEVICE): digits for name, digits in found if name.startswith(DEVICE)}


def _described(entries: Sequence[Descriptor]) -> str:
    found = []
    for each in entries[:_MAX_DESCRIBED]:
        machine = printable(each.annotations.get(MACHINE, ""))[:120]
        target = printable(each.annotations.get(TARGET, "?"))[:80]
        found.append(f"{target} ({machine or 'any device'}) {each.digest}")
    more = len(entries) - len(found)
    return "; ".join(found) + (f"; and {more} more" if more else "")
