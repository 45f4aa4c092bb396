"""`edgeopt push`: a bundle goes to a registry; the registry keeps files that it has already."""

import msgspec

from edgeopt.bundle.read import read_bundle
from edgeopt.errors import UsageError
from edgeopt.events import Emit, Progress
from edgeopt.registry.client import RegistryClient, digest_of
from edgeopt.registry.documents import (
    CONFIG,
    FILE_PATH,
    MANIFEST,
    Descriptor,
    bundle_config,
    bundle_layers,
    bundle_manifest,
)
from edgeopt.registry.reference import DEFAULT_TAG, read_reference
from edgeopt.registry.request import PushRequest


class PushedBundle(msgspec.Struct, frozen=True):
    """A bundle in a registry."""

    reference: str
    """The address with tag and digest."""
    digest: str
    """The digest of the manifest."""
    files: int
    sent_files: int
    total_bytes: int
    """Size of all files with the description and the manifest."""
    sent_bytes: int
    """Bytes of these that were sent; the registry had the others."""


def push(request: PushRequest, emit: Emit) -> PushedBundle:
    """Raises BundleError for a damaged bundle, and MissingError where the registry does not take it."""
    reference = read_reference(request.to)
    if reference.digest:
        raise UsageError(
            f"'{request.to}' names a digest, which follows from the bundle.",
            "Give a tag: oci://HOST/REPOSITORY:TAG",
        )
    emit(Progress("checking digests", request.bundle.name))
    bundle = read_bundle(request.bundle)
    layers = bundle_layers(bundle)
    config = bundle_config(bundle, layers)
    described = Descriptor(CONFIG, digest_of(config), len(config))
    client = RegistryClient(reference, request.plain_http)
    blobs = {layer.digest: (layer, bundle.folder / layer.annotations[FILE_PATH]) for layer in layers}
    missing = [(layer, path) for layer, path in blobs.values() if not client.has_blob(layer.digest)]
    total, sent = sum(layer.size for layer, _ in missing), 0

    def on_bytes(count: int) -> None:
        nonlocal sent
        sent += count
        emit(Progress("sending", request.bundle.name, done=min(sent, total), total=total))

    for layer, path in missing:
        client.send_blob(layer, path, on_bytes)
    sent = total
    if not client.has_blob(described.digest):
        client.send_blob(described, config, lambda _count: None)
        sent += len(config)
    manifest = bundle_manifest(bundle, described, layers)
    client.put_manifest(manifest, reference.tag or DEFAULT_TAG, MANIFEST)
    sent += len(manifest)
    digest = digest_of(manifest)
    tagged = msgspec.structs.replace(reference, tag=reference.tag or DEFAULT_TAG, digest=digest)
    size = sum(layer.size for layer in layers) + len(config) + len(manifest)
    return PushedBundle(str(tagged), digest, len(layers), len(missing), size, sent)
