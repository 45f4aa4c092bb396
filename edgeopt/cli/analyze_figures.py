"""Figures and names of an analysis, as the terminal, documents and the app write them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgeopt.graph.analysis import Cost, NodeRow, Tensor

UNKNOWN = "unknown"
_LONGEST_NAME = 48


def node_name(row: "NodeRow") -> str:
    name = row.name or (row.outputs[0].name if row.outputs else "")
    return f"{row.inside}/{name}" if row.inside else name


def shortened(name: str) -> str:
    """Without the middle of a long path: `/model/…/conv2/Conv`."""
    if len(name) <= _LONGEST_NAME:
        return name
    parts = name.split("/")
    first = next((place for place, part in enumerate(parts) if part), 0)
    for last in range(first + 2, len(parts)):
        short = "/".join((*parts[: first + 1], "…", *parts[last:]))
        if len(short) <= _LONGEST_NAME:
            return short
    return f"{name[: _LONGEST_NAME // 2 - 1]}…{name[-(_LONGEST_NAME // 2) :]}"


def moved(cost: "Cost") -> int | None:
    if cost.read_bytes is None or cost.written_bytes is None:
        return None
    return cost.read_bytes + cost.written_bytes


def shape_text(tensor: "Tensor") -> str:
    """`[batch, 3, ?, 224]`, or `?` where not even the number of dimensions is known."""
    if tensor.shape is None:
        return "?"
    return "[" + ", ".join("?" if d is None else str(d) for d in tensor.shape) + "]"


def scaled(count: float) -> str:
    """`1.23 G`, for a unit to follow."""
    for letter, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= scale:
            return f"{_digits(count / scale)} {letter}"
    return f"{count:.0f} "


def milliseconds(time_ms: float) -> str:
    if not time_ms:
        return "0 µs"
    return f"{_digits(time_ms)} ms" if time_ms >= 1 else f"{_digits(time_ms * 1e3)} µs"


def share_text(share: float) -> str:
    return f"{share:.1%}"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def figure(count: float) -> str:
    """`524 k`, `1.05 G`."""
    return scaled(count).strip()


def summed(value: int, unknown: int, count: int, written: Callable[[float], str] = figure) -> str:
    """A sum over several nodes; what is in it, where not all are."""
    if unknown and unknown == count:
        return UNKNOWN
    return f"≥ {written(value)}" if unknown else written(value)


def known(value: int | None, written: Callable[[float], str] = figure) -> str:
    return UNKNOWN if value is None else written(value)


def time_text(time_ms: float | None) -> str:
    return UNKNOWN if time_ms is None else milliseconds(time_ms)
