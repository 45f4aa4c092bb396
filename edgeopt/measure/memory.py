"""Resident memory of processes, as the kernel counts it.

Resident is what lies in physical memory right now: the heap (also what an allocator keeps after it was freed),
and those pages of mapped files that were touched (code of libraries, weights that a runtime maps instead of
reading them). What is merely in the page cache because a file was read counts for nobody. So a runtime's code
that only a model's first run touches is counted to the model; a tool from outside cannot tell these apart either.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from edgeopt.workers.guard import field_bytes, group_members

if TYPE_CHECKING:
    from edgeopt.measure.messages import Memory


class Sizes(NamedTuple):
    """Now, and the highest so far; None where the system does not tell."""

    resident_bytes: int | None
    peak_bytes: int | None


def status_bytes(field: str, process: str = "self") -> int | None:
    """One `Vm…` field of /proc/PID/status in bytes; None where the system does not tell."""
    return field_bytes(Path("/proc") / process / "status", field)


def resident_bytes() -> int | None:
    return status_bytes("VmRSS")


def peak_bytes() -> int | None:
    return status_bytes("VmHWM")


def exact_sizes(process: str = "self") -> Sizes:
    """Slower by milliseconds, but right: before Linux 6.16 `VmRSS` may miss the latest pages of each core."""
    resident = field_bytes(Path("/proc") / process / "smaps_rollup", "Rss")
    if resident is None:
        resident = status_bytes("VmRSS", process)
    highest = status_bytes("VmHWM", process)
    return Sizes(resident, highest if highest is None or resident is None else max(highest, resident))


def sizes_of_others(group: int) -> Sizes:
    """Of a process group without this process: added up, so pages that two of them share count twice."""
    parts = [exact_sizes(str(pid)) for pid in group_members(group) if pid != os.getpid()]
    resident = [part.resident_bytes for part in parts if part.resident_bytes is not None]
    highest = [part.peak_bytes for part in parts if part.peak_bytes is not None]
    return Sizes(sum(resident) if resident else None, sum(highest) if highest else None)


def net_bytes(memory: "Memory") -> int | None:
    """What the model itself needs while it runs: resident after the latest slice, less what was before it.

    "Before it" is Python, edgeopt, the runtime and the samples. None where either is not known, as for a program
    of the user's own, whose start cannot be told from its model.
    """
    return _less(memory.steady_bytes or memory.first_run_bytes, memory.import_bytes)


def net_peak_bytes(memory: "Memory") -> int | None:
    """What the model takes for a moment, mostly while it loads: the highest, less what was before it."""
    return _less(memory.peak_bytes, memory.import_bytes)


def _less(size: int | None, before: int | None) -> int | None:
    return None if size is None or before is None else max(0, size - before)
