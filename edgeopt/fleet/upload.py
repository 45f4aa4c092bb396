"""A bundle on its way to an agent: one file, sent in pieces, with how far it is."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from edgeopt import units
from edgeopt.bundle.archive import pack
from edgeopt.bundle.read import is_bundle, read_bundle
from edgeopt.errors import BundleError
from edgeopt.events import Emit, Progress

_PIECE_BYTES = 1 << 20


@contextmanager
def ready_to_send(bundle: Path, emit: Emit) -> Iterator[tuple[BinaryIO, int]]:
    """A bundle as one open file, and its size: a folder is packed into a file that leaves nothing behind."""
    if not bundle.exists():
        raise BundleError(f"There is no bundle at '{bundle}'.", "Check the path.")
    if not is_bundle(bundle):
        raise BundleError(f"'{bundle}' is not a bundle.", "Create one with: edgeopt optimize MODEL -o BUNDLE")
    emit(Progress("checking digests", bundle.name))
    read_bundle(bundle)
    if bundle.is_file():
        with bundle.open("rb") as file:
            yield file, bundle.stat().st_size
        return
    with tempfile.TemporaryFile(prefix="edgeopt-deploy-") as file:
        emit(Progress("packing", bundle.name))
        pack(bundle, file)
        size = file.tell()
        file.seek(0)
        yield file, size


def pieces(file: BinaryIO, size: int, emit: Emit) -> Iterator[bytes]:
    """The file in pieces, telling how much of it has been taken."""
    sent = 0
    while piece := file.read(_PIECE_BYTES):
        emit(Progress("sending", units.size(size), done=sent, total=size))
        yield piece
        sent += len(piece)
    emit(Progress("sending", units.size(size), done=sent, total=size))
