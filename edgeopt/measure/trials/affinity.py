"""Keeps a trial to some of the cores."""

import os
from pathlib import Path

from edgeopt.errors import EdgeoptError, UsageError


def keep_to(cores: tuple[int, ...]) -> None:
    """All threads of this process, and all that they start; raises UsageError where that cannot be."""
    if not hasattr(os, "sched_setaffinity"):
        raise UsageError("This system cannot pin processes to cores.", "Leave out the cores and set threads only.")
    usable = os.sched_getaffinity(0)
    missing = sorted(set(cores) - usable)
    if missing:
        raise _refused(f"{_listed(missing)} cannot be used here; usable are {_listed(sorted(usable))}")
    try:
        # Libraries may have started threads while they were imported.
        for thread in Path("/proc/self/task").iterdir():
            os.sched_setaffinity(int(thread.name), cores)
    except OSError as error:
        raise _refused(f"the system refused ({error.strerror})") from None


def _refused(why: str) -> EdgeoptError:
    return UsageError(f"The trial cannot be pinned to these cores: {why}.", "Choose others, or leave them out.")


def _listed(cores: list[int]) -> str:
    return f"core{'s' if len(cores) > 1 else ''} {', '.join(map(str, cores))}"
