"""`edgeopt push`: bundles go to a registry, several as an index; the registry keeps files that it has already."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from edgeopt.bundle.read import Bundle, read_bundle
from edgeopt.errors import UsageError
from edgeopt.events import Emit, Progress
from edgeopt.registry.client import RegistryClient, digest_of
from edgeopt.registry.documents import (
    CONFIG,
    FILE_PATH,
    INDEX,
    MANIFEST,
    TARGET,
    Descriptor,
    bundle_config,
    bundle_layers,
    bundle_manifest,
)
from edgeopt.registry.index import MAX_BUNDLES, device_of, index_entry, index_of
from edgeopt.registry.reference import DEFAULT_TAG, read_reference
from edgeopt.registry.request import PushRequest
from edgeopt.registry.upload import send_blob


class PushedEntry(msgspec.Struct, frozen=True):
    """A bundle of an index in a registry."""

    bundle: str
    target: str
    digest: str
    """The digest of its own manifest."""


class PushedBundle(msgspec.Struct, frozen=True):
    """A bundle in a registry, or an index of several."""

    reference: str
    """The address with tag and digest."""
    digest: str
    """The digest of the manifest or the index."""
    files: int
    sent_files: int
    total_bytes: int
    """Size of all files with descriptions, manifests and index."""
    sent_bytes: int
    """Bytes of these that were sent; the registry had the others."""
    entries: tuple[PushedEntry, ...] = ()
    """The bundles of an index; empty for one bundle."""


def push(request: PushRequest, emit: Emit) -> PushedBundle:
    """Raises BundleError for a damaged bundle, and MissingError where the registry does not take it."""
    reference = read_reference(request.to)
    if reference.digest:
        raise UsageError(
            f"'{request.to}' names a digest, which follows from the bundle.",
            "Give a tag: oci://HOST/REPOSITORY:TAG",
        )
    if not 0 < len(request.bundles) <= MAX_BUNDLES:
        raise UsageError(f"Give from 1 to {MAX_BUNDLES} bundles.", "One for each kind of device.")
    prepared = []
    for path in request.bundles:
        emit(Progress("checking digests", path.name))
        prepared.append(_prepared(path))
    index = _index(prepared) if len(prepared) > 1 else None
    client = RegistryClient(reference, request.plain_http)
    tag = reference.tag or DEFAULT_TAG
    sent_files, sent = _send_blobs(client, prepared, request.to, emit)
    for each in prepared if index else ():
        if not client.has_manifest(each.digest):
            client.put_manifest(each.manifest, each.digest, MANIFEST)
            sent += len(each.manifest)
    top = index or prepared[0].manifest
    client.put_manifest(top, tag, INDEX if index else MANIFEST)
    tagged = msgspec.structs.replace(reference, tag=tag, digest=digest_of(top))
    sizes = [layer.size for each in prepared for layer in each.layers]
    total = sum(sizes) + sum(len(each.config) + len(each.manifest) for each in prepared) + len(index or b"")
    entries = tuple(PushedEntry(str(each.path), each.bundle.deployment.target, each.digest) for each in prepared)
    return PushedBundle(
        str(tagged), tagged.digest, len(sizes), sent_files, total, sent + len(top), entries if index else ()
    )


class _Prepared(NamedTuple):
    path: Path
    bundle: Bundle
    layers: tuple[Descriptor, ...]
    config: bytes
    described: Descriptor
    """Descriptor of the configuration."""
    manifest: bytes
    digest: str
    """Digest of the manifest."""


def _prepared(path: Path) -> _Prepared:
    bundle = read_bundle(path)
    layers = bundle_layers(bundle)
    config = bundle_config(bundle, layers)
    described = Descriptor(CONFIG, digest_of(config), len(config))
    manifest = bundle_manifest(bundle, described, layers)
    return _Prepared(path, bundle, layers, config, described, manifest, digest_of(manifest))


def _index(bundles: Sequence[_Prepared]) -> bytes:
    """Returns the index of several bundles; raises UsageError if no device could tell two of them apart."""
    entries = [index_entry(each.bundle, each.digest, len(each.manifest)) for each in bundles]
    first: dict[tuple[str, frozenset[tuple[str, str]]], Path] = {}
    for each, entry in zip(bundles, entries, strict=True):
        kind = entry.annotations[TARGET], frozenset(device_of(entry).items())
        other = first.setdefault(kind, each.path)
        if other is not each.path:
            raise UsageError(
                f"'{other}' and '{each.path}' have the same target and device, so no device could choose.",
                "Push only one of them.",
            )
    return index_of(tuple(entries))


def _send_blobs(client: RegistryClient, bundles: Sequence[_Prepared], to: str, emit: Emit) -> tuple[int, int]:
    """Sends what the repository does not have; returns the number of files and of bytes that were sent."""
    files = {
        layer.digest: (layer, each.bundle.folder / layer.annotations[FILE_PATH])
        for each in bundles
        for layer in each.layers
    }
    missing = [(layer, path) for layer, path in files.values() if not client.has_blob(layer.digest)]
    total, done = sum(layer.size for layer, _ in missing), 0
    name = bundles[0].path.name if len(bundles) == 1 else to

    def on_bytes(count: int) -> None:
        nonlocal done
        done += count
        emit(Progress("sending", name, done=min(done, total), total=total))

    found = sum(send_blob(client, layer, path, on_bytes) for layer, path in missing)
    configs = {each.described.digest: each for each in bundles}
    for each in configs.values():
        if not client.has_blob(each.described.digest):
            send_blob(client, each.described, each.config, lambda _count: None)
            total += len(each.config)
    return len(missing), total - found
