"""What a deployment may take at most, in the user's words; whatever takes more is out, with the reason."""

from typing import Final

import msgspec

from edgeopt.errors import Named, UsageError
from edgeopt.measure.messages import Memory

_MIB = 2**20
OVER: Final = "over a limit"
"""The status of a candidate that takes more than it may."""


class Limits(msgspec.Struct, frozen=True):
    """None: as much as it wants."""

    memory_bytes: int | None = None
    """At its peak, the whole process."""
    size_bytes: int | None = None
    """All files of the model."""
    latency_ms: float | None = None
    """The median of a run."""


def limits_from(
    max_memory_mib: float | None = None, max_size_mib: float | None = None, max_latency_ms: float | None = None
) -> Limits:
    """UsageError for what nothing can keep to."""
    given = {
        "max_memory_mib": max_memory_mib,
        "max_size_mib": max_size_mib,
        "max_latency_ms": max_latency_ms,
    }
    for name, value in given.items():
        if value is not None and not value > 0:
            limit = Named(name, f"{value:g}")
            raise UsageError(f"{limit} is not a possible limit.", "Give more than 0.", [limit])
    return Limits(
        None if max_memory_mib is None else int(max_memory_mib * _MIB),
        None if max_size_mib is None else int(max_size_mib * _MIB),
        max_latency_ms,
    )


def excess(
    limits: Limits, memory: Memory | None = None, size_bytes: int | None = None, latency_ms: float | None = None
) -> str:
    """What is over its limit, of what is known; empty where nothing is."""
    peak = memory.peak_bytes if memory is not None else None
    told = []
    if limits.memory_bytes is not None and peak is not None and peak > limits.memory_bytes:
        told.append(f"it needs {peak / _MIB:.0f} MiB of memory; the limit is {limits.memory_bytes / _MIB:.0f}")
    if limits.size_bytes is not None and size_bytes is not None and size_bytes > limits.size_bytes:
        told.append(f"its files have {size_bytes / _MIB:.3g} MiB; the limit is {limits.size_bytes / _MIB:.3g}")
    if limits.latency_ms is not None and latency_ms is not None and latency_ms > limits.latency_ms:
        told.append(f"a run takes {latency_ms:.3g} ms; the limit is {limits.latency_ms:.3g}")
    return "; ".join(told)
