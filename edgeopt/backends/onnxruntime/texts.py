"""Options that are written as a short text: lists of cores, sizes of dimensions."""

import os
import re
import sys

from edgeopt.errors import UsageError


def core_list(text: str, backend: str) -> tuple[int, ...]:
    """`0-3,8` as numbers, in that order and each once."""
    cores: list[int] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        last = int(found[2] or found[1]) if found else -1
        if found is None or last < int(found[1]) or last - int(found[1]) > 4096:
            raise UsageError(
                f"The option 'cores' of {backend} holds '{part}', which is not a list of cores.",
                "Write numbers and ranges, as the system counts the logical cores: 0-3,8.",
            )
        cores.extend(range(int(found[1]), last + 1))
    known = os.cpu_count() or 1
    if cores and max(cores) >= known:
        raise UsageError(
            f"The option 'cores' of {backend} names core {max(cores)}, but this device has {known} logical cores.",
            f"Name cores from 0 to {known - 1}.",
        )
    # Windows and macOS do not tell what a process may use.
    allowed = os.sched_getaffinity(0) if sys.platform == "linux" else set(cores)
    outside = [core for core in cores if core not in allowed]
    if outside:
        raise UsageError(
            f"The option 'cores' of {backend} names core {outside[0]}, which this process may not run on.",
            f"Name cores that it may use: {', '.join(map(str, sorted(allowed)))}.",
        )
    return tuple(dict.fromkeys(cores))


def affinities(cores: tuple[int, ...]) -> str:
    """As ONNX Runtime wants them: one entry for each thread of its own, cores counted from 1."""
    return ";".join(str(core + 1) for core in cores[1:])


def dimensions(text: str, backend: str) -> dict[str, int]:
    """`batch=1, sequence=128` by name."""
    sizes = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, size = (piece.strip() for piece in part.rpartition("="))
        if not name or not size.isdecimal() or int(size) == 0:
            raise UsageError(
                f"The option 'free_dimensions' of {backend} holds '{part}', which is no dimension with a size.",
                "Write the names of the model's dimensions with sizes from 1 on: batch=1, sequence=128.",
            )
        sizes[name] = int(size)
    return sizes
