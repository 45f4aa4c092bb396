"""Minimum time of an operation by the roofline of a device's measured peaks (`edgeopt probe --deep`)."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

import msgspec

from edgeopt.graph.analysis.records import AnalysisOptions, NodeRow
from edgeopt.graph.analysis.sums import HOLDERS
from edgeopt.hw.device import Device

HINT = "no peaks are known; measure them with: edgeopt probe --deep"
# Operations per byte below which memory bandwidth limits an operator on any device.
_COMPUTE_MATTERS_FROM = 1.0
_NEXT_LEVELS = ("L1", "L2", "L3", "memory")


@dataclass(frozen=True, slots=True)
class LowerBound:
    time_s: float
    bound: Literal["", "memory", "compute"]
    """Resource that limits the time; empty if there is nothing to do."""


def minimum(device: Device, precision: str, threads: int, operations: int, moved_bytes: int) -> LowerBound | str:
    """Returns the minimum time, or why it is unknown; precisions are named as in the peaks: `fp32`, `int8`."""
    if device.peaks is None:
        return HINT
    if not operations and not moved_bytes:
        return LowerBound(0.0, "")
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
    return LowerBound(moving, "memory") if moving >= computing else LowerBound(computing, "compute")


def _bytes_per_s(device: Device, threads: int, moved_bytes: int) -> float | None:
    """Returns the bandwidth of the first memory level that holds `moved_bytes` and was measured, else None."""
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


_FLOATS = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64"}
_BYTES = ("uint8", "int8")


def timed(rows: Iterable[NodeRow], options: AnalysisOptions) -> tuple[tuple[NodeRow, ...], str]:
    """Returns the rows with their minimum time, and why some have none."""
    rows = tuple(rows)
    device = options.device
    if device is None:
        return rows, "no device was given"
    if device.peaks is None:
        return rows, HINT
    threads = options.threads or device.limits.usable_cores
    dequantized = {o.name for row in rows if row.operator == "DequantizeLinear" for o in row.outputs}
    found: list[NodeRow] = []
    reasons: dict[str, int] = {}
    for row in rows:
        cost = row.cost
        if row.operator in HOLDERS:
            found.append(row)
            continue
        if cost.unknown or cost.operations is None or cost.read_bytes is None or cost.written_bytes is None:
            reasons["their cost is not known"] = reasons.get("their cost is not known", 0) + 1
            found.append(row)
            continue
        moved = cost.read_bytes + cost.written_bytes
        best = minimum(device, precision(row, dequantized), threads, cost.operations, moved)
        if isinstance(best, LowerBound):
            found.append(msgspec.structs.replace(row, least_ms=best.time_s * 1e3, bound=best.bound))
        else:
            reasons[best] = reasons.get(best, 0) + 1
            found.append(row)
    unknown = "; ".join(f"{count:,} nodes are not included: {reason}" for reason, count in reasons.items())
    return tuple(found), unknown


def precision(row: NodeRow, dequantized: Collection[str]) -> str:
    """Returns the precision that a node computes in; int8 between DequantizeLinear and QuantizeLinear."""
    if row.inputs and row.inputs[0].name in dequantized:
        return "int8"
    dtypes = [tensor.dtype for tensor in (*row.inputs, *row.outputs) if tensor.name]
    known = next((_FLOATS[dtype] for dtype in dtypes if dtype in _FLOATS), None)
    if any(dtype in _BYTES for dtype in dtypes[:2]) and not row.operator.endswith("quantizeLinear"):
        return "int8"
    return known or ("int8" if any(dtype in _BYTES for dtype in dtypes) else "integers")
