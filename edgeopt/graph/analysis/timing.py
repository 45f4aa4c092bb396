"""The least time of each node on a device: what it costs against the device's measured peaks."""

from collections.abc import Collection, Iterable

import msgspec

from edgeopt.graph.analysis.records import Given, NodeRow
from edgeopt.graph.analysis.roofline import HINT, Least, least
from edgeopt.graph.analysis.sums import HOLDERS

_FLOATS = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64"}
_BYTES = ("uint8", "int8")


def timed(rows: Iterable[NodeRow], given: Given) -> tuple[tuple[NodeRow, ...], str]:
    """The rows with their least time, and why some have none."""
    rows = tuple(rows)
    device = given.device
    if device is None:
        return rows, "no device was given"
    if device.peaks is None:
        return rows, HINT
    threads = given.threads or device.limits.usable_cores
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
        best = least(device, precision(row, dequantized), threads, cost.operations, moved)
        if isinstance(best, Least):
            found.append(msgspec.structs.replace(row, least_ms=best.time_s * 1e3, bound=best.bound))
        else:
            reasons[best] = reasons.get(best, 0) + 1
            found.append(row)
    told = "; ".join(f"{count:,} nodes are not included: {reason}" for reason, count in reasons.items())
    return tuple(found), told


def precision(row: NodeRow, dequantized: Collection[str]) -> str:
    """Of the numbers that a node computes with; between DQ and Q that is int8, as runtimes take it."""
    if row.inputs and row.inputs[0].name in dequantized:
        return "int8"
    dtypes = [tensor.dtype for tensor in (*row.inputs, *row.outputs) if tensor.name]
    known = next((_FLOATS[dtype] for dtype in dtypes if dtype in _FLOATS), None)
    if any(dtype in _BYTES for dtype in dtypes[:2]) and not row.operator.endswith("quantizeLinear"):
        return "int8"
    return known or ("int8" if any(dtype in _BYTES for dtype in dtypes) else "integers")
