"""The kernels of a run as rows of an analysis: with their nodes, what these cost, and what peaks allow."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from edgeopt.backends.base import Kernel
from edgeopt.graph.analysis import NodeRow, OpTimeRow
from edgeopt.graph.analysis.records import name_of
from edgeopt.graph.analysis.roofline import Least, least, precision
from edgeopt.graph.analysis.sums import HOLDERS
from edgeopt.hw.device import Device
from edgeopt.measure.kernels.op_times_join import Members, members_of
from edgeopt.measure.kernels.op_times_source import NAME, Prepared, SourceNode

_NUMBERED = re.compile(re.escape(NAME).replace(r"\{\}", r"(\d+)(?!\d)"))


@dataclass(frozen=True, slots=True)
class _View:
    source: Prepared
    rows: Sequence[NodeRow]
    outputs: frozenset[str]
    """Of the model."""
    readers: dict[str, int]
    """How many nodes read a tensor."""
    parts: Counter[int]
    """How many nodes of the source came of one row: those of the body of a function that it calls."""
    dequantized: Collection[str]
    device: Device | None
    threads: int


def rows_of(
    kernels: Sequence[Kernel],
    source: Prepared,
    nodes: Sequence[NodeRow],
    outputs: frozenset[str],
    device: Device | None = None,
    threads: int | None = None,
) -> tuple[OpTimeRow, ...]:
    """One for each kernel that ran, the longest first."""
    view = _View(
        source,
        nodes,
        outputs,
        Counter(value for node in source.nodes for value in node.reads),
        Counter(node.row for node in source.nodes),
        frozenset(out for node in source.nodes if node.operator == "DequantizeLinear" for out in node.outputs),
        device,
        threads or (device.limits.usable_cores if device is not None else 1),
    )
    holders = {kernel.within for kernel in kernels}
    total = sum(kernel.time_ms for kernel in kernels) or 1.0
    found = [
        _row(kernel, members, view, total, kernel.name in holders)
        for kernel, members in zip(kernels, members_of(kernels, source.nodes), strict=True)
        if kernel.calls
    ]
    return tuple(sorted(found, key=lambda row: -row.time_ms))


def _row(kernel: Kernel, members: Members, view: _View, total: float, holds_others: bool) -> OpTimeRow:
    # What takes the most work first: it is what a fused kernel is known for.
    rows = sorted(_model_rows(members.nodes, view), key=lambda each: -(each.cost.operations or 0))
    row = OpTimeRow(
        kernel=_NUMBERED.sub(lambda match: _name_of(int(match[1]), view), kernel.name),
        operator=kernel.operator,
        time_ms=kernel.time_ms,
        share=kernel.time_ms / total,
        members=tuple(dict.fromkeys(name_of(each) for each in rows)),
        categories=tuple(dict.fromkeys(each.category for each in rows if each.category)),
        added=members.added,
    )
    # What a loop spends by itself is not what its body computes.
    if holds_others or not members.own:
        return row
    operations, moved = _work(kernel, members.own, view)
    if operations is None or moved is None:
        return row
    best = _least(kernel, _model_rows(members.own, view), operations, moved, view)
    return msgspec.structs.replace(
        row,
        operations=operations,
        moved_bytes=moved,
        least_ms=None if best is None else best.time_s * 1e3,
        bound="" if best is None else best.bound,
    )


def _model_rows(places: Sequence[int], view: _View) -> list[NodeRow]:
    found = dict.fromkeys(view.source.nodes[place].row for place in places)
    return [view.rows[row] for row in found if 0 <= row < len(view.rows)]


def _name_of(number: int, view: _View) -> str:
    rows = _model_rows((number,), view) if number < len(view.source.nodes) else []
    return name_of(rows[0]) if rows else NAME.format(number)


def _work(kernel: Kernel, own: Sequence[int], view: _View) -> tuple[int | None, int | None]:
    """Operations and moved bytes of a run; what goes from one of the nodes to another one stays in the kernel."""
    times = max(1, round(kernel.calls))
    operations = moved = 0
    nodes = [view.source.nodes[place] for place in own]
    for row, count in Counter(node.row for node in nodes).items():
        if not 0 <= row < len(view.rows) or count < view.parts[row]:
            return None, None  # one part of a function, whose cost is known only as a whole
        cost = view.rows[row].cost
        if cost.unknown or cost.operations is None or cost.read_bytes is None or cost.written_bytes is None:
            return None, None
        operations += cost.operations
        moved += cost.read_bytes + cost.written_bytes
    kept = _kept_bytes(nodes, view)
    return operations * times, max(0, moved - kept) * times


def _kept_bytes(nodes: Sequence[SourceNode], view: _View) -> int:
    read_here = Counter(value for node in nodes for value in node.reads)
    kept = 0
    for node in nodes:
        if len(node.outputs) != 1 or node.outputs[0] in view.outputs:
            continue
        here = read_here[node.outputs[0]]
        if here and here == view.readers[node.outputs[0]]:
            kept += (view.rows[node.row].cost.written_bytes or 0) * (1 + here)
    return kept


def _least(kernel: Kernel, rows: Sequence[NodeRow], operations: int, moved: int, view: _View) -> Least | None:
    if view.device is None or all(row.operator in HOLDERS for row in rows):
        return None
    heaviest = max(rows, key=lambda row: row.cost.operations or 0)
    in_what = kernel.precision or precision(heaviest, view.dequantized)
    best = least(view.device, in_what, view.threads, operations, moved)
    return best if isinstance(best, Least) else None
