"""Writing a file that a user named: completely or not at all, and only over a plain file."""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from edgeopt.bundle.deployment import check_outside_bundles
from edgeopt.errors import UsageError, is_disk_full
from edgeopt.platform.files import is_stream, replace_path


def in_its_place(path: Path) -> bool:
    """Whether the file must be written directly: a pipe, a device, or a file in a folder that is not writable."""
    named = path.absolute()
    if is_stream(named):
        return True
    if not path.exists():
        return False
    return not path.is_file() or not os.access(path.resolve().parent, os.W_OK)


def check_place(path: Path, what: str, sources: Sequence[Path | None] = ()) -> None:
    """Raises UsageError if a file cannot be written, so that a long measurement does not end without its file.

    `sources` are the user's files that the command reads: the file must not take their place.
    """
    if path.is_dir():
        raise UsageError(f"{what} cannot go to '{path}': that is a folder.", "Name a file in that folder.")
    parent = path.absolute().parent if path.exists() else path.resolve().parent
    if not parent.is_dir():
        raise UsageError(f"The folder of '{path}' does not exist.", "Create it first.")
    if not os.access(path if path.exists() else parent, os.W_OK):
        raise UsageError(f"{what} cannot be written to '{path}'.", "Choose a writable place.")
    if path.exists() and any(each and each.exists() and path.samefile(each) for each in sources):
        raise UsageError(f"'{path}' is an input and would be replaced.", "Choose another name.")
    check_outside_bundles(path)


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Opens a file that replaces `path` at the end: a crash leaves the old or the new one; links are followed."""
    try:
        with _writing(path) as file:
            yield file
    except OSError as error:
        if not is_disk_full(error):
            raise
        # The system does not name the file when a write fails.
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error


@contextmanager
def _writing(path: Path) -> Iterator[BinaryIO]:
    if in_its_place(path):
        with path.open("wb") as file:
            yield file
        return
    target = path.resolve()
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        replace_path(part, target)
    finally:
        part.unlink(missing_ok=True)
