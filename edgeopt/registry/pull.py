"""`edgeopt pull`: a bundle comes from a registry, and takes its place once all of it is checked."""

import shutil
from pathlib import Path

import msgspec

from edgeopt.bundle import manifest
from edgeopt.bundle.durable import remove
from edgeopt.bundle.read import Bundle, is_bundle, read_bundle
from edgeopt.bundle.write import check_target, publish
from edgeopt.errors import BundleError, UsageError, writing_to
from edgeopt.events import Emit, Progress
from edgeopt.hw.device import fingerprint
from edgeopt.hw.probe import probe
from edgeopt.registry.client import RegistryClient, digest_of
from edgeopt.registry.documents import FileLayer, read_layers
from edgeopt.registry.index import choose_entry, is_index
from edgeopt.registry.reference import RegistryReference, read_reference
from edgeopt.registry.request import PullRequest

_MARK = ".edgeopt-pull-"
"""Part of the hidden name of an incomplete bundle, followed by digits of the digest of its manifest."""
_MARK_DIGITS = 16


class PulledBundle(msgspec.Struct, frozen=True):
    """A bundle that came from a registry."""

    bundle: str
    reference: str
    """The address with the digest that its tag had; of an index, with the digest of the chosen bundle."""
    release: str
    files: int
    total_bytes: int
    received_bytes: int
    """Bytes of files that this command received; the others were here already."""


def resolve(reference: RegistryReference, plain_http: bool = False) -> RegistryReference:
    """Returns the address with the digest that its tag has now, that of an index included."""
    if reference.digest:
        return reference
    content = RegistryClient(reference, plain_http).manifest(reference.version)
    return msgspec.structs.replace(reference, digest=digest_of(content))


def pull(request: PullRequest, emit: Emit) -> PulledBundle:
    """Raises BundleError for what is damaged or no bundle, and MissingError where nothing can be fetched."""
    reference = read_reference(request.from_)
    out = request.out.absolute()
    check_target(out)
    client = RegistryClient(reference, request.plain_http)
    content = client.manifest(reference.version)
    digest = digest_of(content)
    entry = None
    if is_index(content, str(reference)):
        emit(Progress("asking the device", ""))
        entry = choose_entry(content, fingerprint(probe()), str(reference), request.target)
        digest = entry.digest
        content = client.manifest(digest)
    elif request.target:
        raise UsageError(f"{reference} is one bundle, not an index.", "Leave --target out.")
    layers = read_layers(content, str(reference), entry)
    received = here = 0
    total = sum(layer.size_bytes for layer in layers)
    hidden = out.with_name(f".{out.name}{_MARK}{digest.removeprefix('sha256:')[:_MARK_DIGITS]}")
    have = _Here(out)

    def on_bytes(count: int) -> None:
        nonlocal received
        received += count
        emit(Progress("receiving", out.name, done=min(here + received, total), total=total))

    with writing_to(out, inside=hidden):
        _make(hidden, layers)
        for layer in layers:
            file = hidden / layer.path
            file.parent.mkdir(parents=True, exist_ok=True)
            have.copy(layer, file)
            here += file.stat().st_size if file.exists() else 0
            client.fetch_blob(layer.digest, layer.size_bytes, file, on_bytes)
            have.files.setdefault(layer.digest, file)
        emit(Progress("checking digests", out.name))
        try:
            read_bundle(hidden)
        except BundleError as error:
            remove(hidden)
            raise BundleError(
                f"{reference} is not a sound bundle. {error.message.replace(hidden.name, out.name)}",
                "Push it again from its source.",
            ) from None
        release = manifest.release_id(hidden)
        publish(hidden, out, single_file=request.single_file)
    remove(hidden)
    for left in out.parent.glob(f".{_escaped(out.name)}{_MARK}*"):
        remove(left)  # of an earlier bundle whose transfer was given up
    resolved = msgspec.structs.replace(reference, digest=digest)
    return PulledBundle(str(out), str(resolved), release, len(layers), total, received)


class _Here:
    """Files that are on this machine by their digest, at first those of the bundle that is to be replaced."""

    def __init__(self, out: Path) -> None:
        self.files: dict[str, Path] = {}
        self._held: Bundle | None = None
        if is_bundle(out):
            try:
                self._held = read_bundle(out)
            except BundleError:
                return
            listed = manifest.check_manifest(self._held.folder).files
            self.files = {f"sha256:{entry.sha256}": self._held.folder / name for name, entry in listed.items()}

    def copy(self, layer: FileLayer, file: Path) -> None:
        source = self.files.get(layer.digest)
        if source is not None and not file.exists():
            shutil.copyfile(source, file)


def _make(hidden: Path, layers: tuple[FileLayer, ...]) -> None:
    """Makes the folder, and removes from one that is left what does not belong to the bundle."""
    hidden.mkdir(exist_ok=True)
    known = {hidden / layer.path for layer in layers}
    for path in hidden.rglob("*"):
        if path.is_symlink() or (not path.is_dir() and path not in known):
            path.unlink()


def _escaped(name: str) -> str:
    import glob

    return glob.escape(name)
