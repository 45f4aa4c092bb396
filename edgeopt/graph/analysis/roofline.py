"""The shortest time that a device's measured peaks (`edgeopt probe --deep`) allow for a piece of work."""

from dataclasses import dataclass
from typing import Literal

from edgeopt.hw.device import Device

HINT = "no peaks are known; measure them with: edgeopt probe --deep"
# Below this number of operations per byte, memory limits an operator on any device.
_COMPUTE_MATTERS_FROM = 1.0
_NEXT_LEVELS = ("L1", "L2", "L3", "memory")


@dataclass(frozen=True, slots=True)
class Least:
    time_s: float
    bound: Literal["", "memory", "compute"]
    """What takes that time; empty where there is nothing to do."""


def least(device: Device, precision: str, threads: int, operations: int, moved_bytes: int) -> Least | str:
    """Or why it cannot be told; precisions are called as those of the peaks are: `fp32`, `int8`."""
    if device.peaks is None:
        return HINT
    if not operations and not moved_bytes:
        return Least(0.0, "")
    rates = [
        peak.operations_per_s
        for peak in device.peaks.compute
        if peak.precision == precision and peak.threads == threads
    ]
    if not rates and operations > _COMPUTE_MATTERS_FROM * moved_bytes:
        return f"no peak is known for {precision} with {threads} threads"
    bandwidth = _bytes_per_s(device, threads, moved_bytes)
    if bandwidth is None:
        return f"no peak of the memory is known for {threads} threads"
    moving, computing = moved_bytes / bandwidth, operations / max(rates) if rates else 0.0
    return Least(moving, "memory") if moving >= computing else Least(computing, "compute")


def _bytes_per_s(device: Device, threads: int, moved_bytes: int) -> float | None:
    """Of the nearest level that holds all that is moved; of the next one where there is no figure for it."""
    peaks = () if device.peaks is None else device.peaks.memory
    room = {
        f"L{cache.level}": cache.size_bytes * min(cache.instances, threads)
        for cache in device.caches
        if cache.kind != "instruction"
    }
    for level in _NEXT_LEVELS:
        if level != "memory" and room.get(level, 0) < moved_bytes:
            continue
        rates = [
            peak.copy_bytes_per_s or peak.read_bytes_per_s
            for peak in peaks
            if peak.level == level and peak.threads == threads
        ]
        known = [rate for rate in rates if rate is not None]
        if known:
            return max(known)
    return None
