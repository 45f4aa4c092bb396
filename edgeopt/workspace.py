"""Temporary folders that are gone when the work ends, and are swept up later when its process was killed."""

import contextlib
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgeopt.errors import writing_to

BENCH = "edgeopt-bench-"
PEAKS = "edgeopt-peaks-"
WORK = "edgeopt-work-"
BUNDLE = "edgeopt-bundle-"
_OWNED = re.compile(r"edgeopt-[a-z]+-(\d+)-.+")


@contextmanager
def workspace(prefix: str = BENCH) -> Iterator[Path]:
    """A fresh folder; its name holds the process that owns it, so that later ones can tell who is gone."""
    # Named first and made second: an interrupt between the two leaves nothing.
    folder = fresh_place(prefix)
    try:
        with writing_to(folder, inside=folder):
            folder.mkdir(mode=0o700)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def temporary_folder(kind: str) -> "tempfile.TemporaryDirectory[str]":
    """Makes a folder that goes away with the returned object; `kind` is a word of small letters."""
    return tempfile.TemporaryDirectory(prefix=f"edgeopt-{kind}-{os.getpid()}-", ignore_cleanup_errors=True)


def fresh_place(prefix: str) -> Path:
    """Returns a path at which this process may make a folder of its own."""
    parent = Path(tempfile.gettempdir())
    sweep(parent)
    return parent / f"{prefix}{os.getpid()}-{secrets.token_hex(8)}"


def sweep(parent: Path) -> None:
    """Removes the folders whose process is gone, whatever of edgeopt made them."""
    for folder in parent.glob("edgeopt-*"):
        owned = _OWNED.fullmatch(folder.name)
        if owned and not _exists(int(owned[1])):
            with contextlib.suppress(OSError):
                shutil.rmtree(folder, ignore_errors=True)


def _exists(pid: int) -> bool:
    import psutil

    return bool(psutil.pid_exists(pid))
