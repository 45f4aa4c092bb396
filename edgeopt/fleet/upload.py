"""A bundle on its way to an agent: one file, sent in pieces, with how far it is."""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from edgeopt import units
from edgeopt.bundle.archive import packed
from edgeopt.bundle.read import is_bundle, read_bundle
from edgeopt.errors import BundleError
from edgeopt.events import Emit, Progress

_PIECE_BYTES = 1 << 20


def ready_to_send(bundle: Path, emit: Emit) -> tuple[Iterable[bytes], int]:
    """A bundle as one file in pieces, and its size. A folder is packed while it is sent: it needs no room here."""
    if not bundle.exists():
        raise BundleError(f"There is no bundle at '{bundle}'.", "Check the path.")
    if not is_bundle(bundle):
        raise BundleError(f"'{bundle}' is not a bundle.", "Create one with: edgeopt optimize MODEL -o BUNDLE")
    emit(Progress("checking digests", bundle.name))
    read_bundle(bundle)
    if bundle.is_file():
        return _pieces(bundle), bundle.stat().st_size
    return packed(bundle), sum(map(len, packed(bundle)))


def _pieces(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        yield from iter(partial(opened.read, _PIECE_BYTES), b"")


def sending(pieces: Iterable[bytes], size: int, emit: Emit) -> Iterator[bytes]:
    """The pieces, telling how much of them has been taken."""
    sent = 0
    for piece in pieces:
        emit(Progress("sending", units.size(size), done=sent, total=size))
        yield piece
        sent += len(piece)
    emit(Progress("sending", units.size(size), done=sent, total=size))
