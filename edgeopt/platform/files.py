"""Files and folders: durable renames, logs that several processes append to, buffers of the C library."""

import ctypes
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

_LONGEST_S = 2.0
_AGAIN_S = 0.02
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def replace_path(source: Path, target: Path) -> None:
    """Renames a file or folder over what is there; on Windows, waits for a moment while others have it open."""
    _patiently(source.replace, target)


def rename_path(source: Path, target: Path) -> None:
    """Renames a file or folder, as `replace_path` does."""
    _patiently(source.rename, target)


def _patiently(move: Callable[[Path], object], target: Path) -> None:
    end = time.monotonic() + _LONGEST_S
    while True:
        try:
            move(target)
        except PermissionError:
            # Virus scanners and indexers open new files for a moment.
            if os.name != "nt" or time.monotonic() > end:
                raise
            time.sleep(_AGAIN_S)
        else:
            return


def exchange_paths(one: Path, other: Path) -> bool:
    """Swaps two names in one step (Linux `renameat2`); returns False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    done = rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), ctypes.c_uint(_RENAME_EXCHANGE))
    return bool(done == 0)


def sync_path(path: Path) -> None:
    """Makes sure that a file, or the names in a folder, are on the disk; Windows does not do it for folders."""
    if path.is_dir() and os.name == "nt":
        return
    # Windows syncs only what was opened for writing.
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def drop_cached(path: Path) -> None:
    """Asks the kernel, where it can be asked, to drop a file from the page cache."""
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.fsync(file.fileno())  # pages that are not yet on the disk cannot be dropped
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def append_only(log: int) -> None:
    """Makes writers append to a log even after it was cut; on Windows they may leave a gap of zeros instead."""
    if sys.platform != "win32":
        import fcntl

        fcntl.fcntl(log, fcntl.F_SETFL, fcntl.fcntl(log, fcntl.F_GETFL) | os.O_APPEND)


def flush_c_streams() -> None:
    """Flushes what C code has printed; does nothing on Windows, where libraries have C runtimes of their own."""
    if sys.platform != "win32":
        ctypes.CDLL(None).fflush(None)


def try_lock(file: int) -> bool:
    """Locks an open file until this process ends; returns whether that worked."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def read_end(file: int, max_bytes: int) -> bytes:
    """Returns the last bytes of an open file, and leaves the place where it is written next."""
    size = os.fstat(file).st_size
    begin = max(0, size - max_bytes)
    if hasattr(os, "pread"):
        return os.pread(file, max_bytes, begin)
    place = os.lseek(file, begin, os.SEEK_SET)
    try:
        return os.read(file, max_bytes)
    finally:
        os.lseek(file, max(place, size), os.SEEK_SET)


def is_stream(path: Path) -> bool:
    """Whether a path names a file that this process holds open, such as standard output."""
    return path.parent in {Path("/dev"), Path("/dev/fd")} or Path("/proc") in path.parents


def name_of(descriptor: int) -> str | None:
    """Returns the path of an open file; None if the system does not report it."""
    try:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink())
    except OSError:
        return None
