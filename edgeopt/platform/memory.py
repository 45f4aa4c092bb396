"""Resident memory of processes: from /proc, or else from psutil."""

import os
from pathlib import Path


def kills_for_memory() -> int | None:
    """Returns how many processes the kernel has killed for lack of memory; None if it does not report it."""
    try:
        with open("/proc/vmstat", "rb") as file:  # noqa: PTH123 - as the other files of /proc
            lines = file.read().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(b"oom_kill ")), None)


def resident_bytes(pid: int) -> int | None:
    """Returns a process's resident bytes; None if it is gone or the system does not report them."""
    size = quick_resident_bytes(pid)
    if size is not None or os.path.exists("/proc/self/statm"):  # noqa: PTH110 - many times a second
        return size
    return library_sizes(pid)[0]


def library_sizes(pid: int) -> tuple[int | None, int | None]:
    """Returns a process's resident bytes as psutil reports them: now, and at their peak (on Windows only)."""
    import psutil

    try:
        found = psutil.Process(pid).memory_info()
    except psutil.Error:
        return None, None
    return int(found.rss), getattr(found, "peak_wset", None)


def quick_resident_bytes(pid: int) -> int | None:
    """Returns a process's resident bytes in some ten microseconds; may miss the latest pages."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123 - many times a second
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return None


def own_share_bytes(pid: int) -> int | None:
    """Returns a process's resident bytes, with each shared page divided among its users."""
    return field_bytes(Path(f"/proc/{pid}/smaps_rollup"), "Pss")


def field_bytes(path: Path, field: str) -> int | None:
    """Returns a field of a file of /proc in bytes; None if there is no such file or field."""
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return None
