"""Resident memory of processes, as the kernel counts it.

Resident memory is in physical memory now: the heap (including freed memory that an allocator keeps), and the
touched pages of mapped files (code of libraries, weights that a runtime maps instead of reading them). Pages
that are only in the page cache, because a file was read, are not included. A runtime's code that only a model's
first run touches is therefore counted as the model's; external tools cannot separate them either.
"""

import os
from pathlib import Path
from typing import NamedTuple

from edgeopt.platform.memory import field_bytes, library_sizes
from edgeopt.platform.processes import group_members


class Sizes(NamedTuple):
    """Resident memory now and at its peak, in bytes; None if the system does not report it."""

    resident_bytes: int | None
    peak_bytes: int | None


def status_bytes(field: str, process: str = "self") -> int | None:
    """Returns one `Vm…` field of /proc/PID/status in bytes; None if the system does not report it."""
    return field_bytes(Path("/proc") / process / "status", field)


def resident_bytes() -> int | None:
    return status_bytes("VmRSS")


def peak_bytes() -> int | None:
    return status_bytes("VmHWM")


def exact_sizes(process: str = "self") -> Sizes:
    """Returns exact sizes, which takes milliseconds; before Linux 6.16 `VmRSS` may lack the latest pages."""
    resident = field_bytes(Path("/proc") / process / "smaps_rollup", "Rss")
    if resident is None and not Path("/proc").exists():
        return Sizes(*library_sizes(os.getpid() if process == "self" else int(process)))
    if resident is None:
        resident = status_bytes("VmRSS", process)
    highest = status_bytes("VmHWM", process)
    return Sizes(resident, highest if highest is None or resident is None else max(highest, resident))


def sizes_of_others(group: int) -> Sizes:
    """Sums the sizes of a process group without this process; pages shared by two processes count twice."""
    parts = [exact_sizes(str(pid)) for pid in group_members(group) if pid != os.getpid()]
    resident = [part.resident_bytes for part in parts if part.resident_bytes is not None]
    highest = [part.peak_bytes for part in parts if part.peak_bytes is not None]
    return Sizes(sum(resident) if resident else None, sum(highest) if highest else None)


def added_bytes(peak: int | None, empty: int | None) -> int | None:
    """Returns the most memory that runtime and model add to an empty process of the same kind, in bytes.

    An empty process holds Python, edgeopt's modules and the samples. Returns None if either size is unknown, as
    for a user's program, whose start cannot be separated from its model.
    """
    return None if peak is None or empty is None else max(0, peak - empty)
