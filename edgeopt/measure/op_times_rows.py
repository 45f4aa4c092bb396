"""The kernels of a run as rows of an analysis: joined with the nodes of the model."""

import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgeopt.backends.base import Kernel
from edgeopt.graph.analysis import NodeRow, OpTimeRow
from edgeopt.graph.analysis.records import name_of
from edgeopt.graph.analysis.roofline import LowerBound, minimum, precision
from edgeopt.graph.analysis.sums import HOLDERS
from edgeopt.hw.device import Device

if TYPE_CHECKING:
    import onnx_ir as ir

    from edgeopt.graph.model import Model


NAME = "edgeopt_{}"
_POSITION = "edgeopt.position"


@dataclass(frozen=True, slots=True)
class SourceNode:
    """A node as the runtime receives it."""

    name: str
    row: int
    """Index of the node's row in the analysis; negative if there is none."""
    operator: str
    reads: tuple[str, ...]
    """Tensors that the node reads, including those that its bodies read."""
    outputs: tuple[str, ...]
    fixed: bool = False
    """Whether the node computes a constant, which runtimes compute once before the first run."""


@dataclass(frozen=True, slots=True)
class Prepared:
    path: Path
    nodes: tuple[SourceNode, ...]


def prepared(path: Path, folder: Path) -> Prepared:
    """Writes a copy of the model with numbered nodes, and returns it with the row of each node in the analysis."""
    from edgeopt.graph.model import load
    from edgeopt.graph.nodes import nodes_of
    from edgeopt.graph.passes.base import PassContext
    from edgeopt.graph.passes.cleaning import common_form, folding

    model = load(path)
    graph = model.ir
    for position, node in enumerate(_in_order(graph.graph)):
        node.metadata_props[_POSITION] = str(position)
    if graph.functions:
        graph = common_form.inline_functions(graph, PassContext()).model
    if any(node.op_type == "If" for node in nodes_of(graph)):
        graph = folding.fold_constants(graph, PassContext()).model
    nodes = list(_in_order(graph.graph))
    rows = [int(node.metadata_props.pop(_POSITION, -1)) for node in nodes]
    for place, node in enumerate(nodes):
        node.name = NAME.format(place)
    fixed = _fixed(nodes)
    copy = folder / "timed.onnx"
    _save(graph, model, copy)
    return Prepared(
        copy,
        tuple(
            SourceNode(node.name or "", row, node.op_type, _reads(node), _names(node.outputs), node in fixed)
            for node, row in zip(nodes, rows, strict=True)
        ),
    )


def source_of_rows(path: Path, rows: tuple[NodeRow, ...]) -> Prepared:
    """Returns the nodes of a model that is timed unchanged, because its nodes have names of their own."""
    return Prepared(
        path,
        tuple(
            SourceNode(
                row.name,
                row.position,
                row.operator,
                tuple(tensor.name for tensor in row.inputs if tensor.name),
                tuple(tensor.name for tensor in row.outputs if tensor.name),
                row.operator in {"Const", "Constant"},
            )
            for row in rows
        ),
    )


def _in_order(graph: "ir.Graph") -> "Iterator[ir.Node]":
    for node in graph:
        yield node
        for body in _bodies(node):
            yield from _in_order(body)


def _bodies(node: "ir.Node") -> "Iterator[ir.Graph]":
    import onnx_ir as ir

    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type is ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type is ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def _reads(node: "ir.Node") -> tuple[str, ...]:
    inner = [each for body in _bodies(node) for each in _in_order(body)]
    made = {name for each in inner for name in _names(each.outputs)}
    read = [name for each in (node, *inner) for name in _names(each.inputs) if name not in made]
    return tuple(dict.fromkeys(read))


def _names(values: "Iterator[ir.Value | None] | tuple[ir.Value | None, ...]") -> tuple[str, ...]:
    return tuple(value.name for value in values if value is not None and value.name)


def _fixed(nodes: "list[ir.Node]") -> "set[ir.Node]":
    """Returns the nodes that depend on no input of the model and draw no random numbers."""
    from edgeopt.graph.nodes import is_random

    found: set[ir.Node] = set()
    for node in nodes:
        known = (
            value is None
            or value.producer() in found
            or (value.const_value is not None and not value.is_graph_input())
            for value in node.inputs
        )
        if not is_random(node) and not any(True for _ in _bodies(node)) and all(known):
            found.add(node)
    return found


def _save(graph: "ir.Model", model: "Model", copy: Path) -> None:
    """Saves the copy of the model; files with external weights are linked, or copied if linking fails."""
    import onnx_ir as ir

    for file in model.external:
        beside = copy.parent / file.relative_to(model.path.parent)
        beside.parent.mkdir(parents=True, exist_ok=True)
        try:
            beside.hardlink_to(file.resolve())
        except OSError:
            shutil.copyfile(file, beside)
    ir.save(graph, copy)


_NUMBERED = re.compile(re.escape(NAME).replace(r"\{\}", r"(\d+)(?!\d)"))

_RESULT = re.compile(r"\.\d+$")


@dataclass(frozen=True, slots=True)
class Members:
    """The nodes computed by a kernel, by their place in the source."""

    nodes: tuple[int, ...] = ()
    own: tuple[int, ...] = ()
    """The nodes whose work is attributed to this kernel; the others belong to another kernel."""
    added: bool = False
    """Whether the kernel computes no node itself, such as a conversion; the nodes are those that it serves."""


class _Finder:
    def __init__(self, nodes: Sequence[SourceNode]) -> None:
        self.nodes = nodes
        self.by_name: dict[str, int] = {}
        self.made_by: dict[str, int] = {}
        for place, node in reversed(list(enumerate(nodes))):
            self.by_name[node.name] = place
            for value in node.outputs:
                self.made_by[value] = place

    def named_by(self, kernel: Kernel) -> list[int]:
        """Returns the nodes that a kernel names; folded constants are included only if there is nothing else."""
        found = [place for text in kernel.sources for place in self._named(text)]
        makers = [self.made_by[value] for value in kernel.outputs if value in self.made_by]
        places = list(dict.fromkeys((*found, *makers)))
        return [place for place in places if not self.nodes[place].fixed] or places

    def _named(self, text: str) -> list[int]:
        numbers = [int(number) for number in _NUMBERED.findall(text)[:1] if text.startswith(NAME[:-2])]
        if numbers:
            return [number for number in numbers if number < len(self.nodes)]
        while text:
            for known in (self.by_name, self.made_by):
                if text in known:
                    return [known[text]]
            # The end of a name can be a part or a result number: `conv/WithoutBiases`, `scores.0`.
            text = _RESULT.sub("", text) if _RESULT.search(text) else text.rpartition("/")[0]
        return []

    def between(self, begin: Iterable[int], taken: set[int]) -> list[int]:
        """Returns the nodes before these that no kernel represents."""
        found: list[int] = []
        waiting = list(begin)
        while waiting:
            for value in self.nodes[waiting.pop()].reads:
                place = self.made_by.get(value)
                if place is not None and place not in taken and not self.nodes[place].fixed:
                    taken.add(place)
                    found.append(place)
                    waiting.append(place)
        return found


def members_of(kernels: Sequence[Kernel], nodes: Sequence[SourceNode]) -> list[Members]:
    """Returns the nodes of each kernel, in the same order; empty for a kernel without known nodes."""
    finder = _Finder(nodes)
    named = [finder.named_by(kernel) for kernel in kernels]
    owner: dict[int, int] = {}
    for place in sorted(range(len(kernels)), key=lambda place: -kernels[place].time_ms):
        for node in named[place]:
            owner.setdefault(node, place)
            if _alike(kernels[place], nodes[node]) and not _alike(kernels[owner[node]], nodes[node]):
                owner[node] = place
    taken = set(owner)
    found = []
    for place, direct in enumerate(named):
        own = [node for node in direct if owner[node] == place]
        between = finder.between(own, taken)
        added = bool(direct) and not own
        found.append(Members(tuple(sorted({*direct, *between})), tuple(sorted({*own, *between})), added))
    return _with_own(kernels, _with_added(kernels, found))


def _alike(kernel: Kernel, node: SourceNode) -> bool:
    """Whether the kernel does the work of the operator, and not a conversion around it."""
    if kernel.operator == "FullyConnected":
        return node.operator in {"MatMul", "Gemm"}
    mine, its = kernel.operator.lower(), node.operator.lower()
    return bool(kernel.calls) and (its in mine or mine.startswith(its[:4]))


def _with_own(kernels: Sequence[Kernel], found: list[Members]) -> list[Members]:
    """Attributes the nodes of kernels that never run to an added kernel that serves them and does run."""
    idle = {node for kernel, each in zip(kernels, found, strict=True) if not kernel.calls for node in each.own}
    for place in sorted(range(len(kernels)), key=lambda place: -kernels[place].time_ms):
        each = found[place]
        if each.added and kernels[place].calls and (own := idle & set(each.nodes)):
            found[place] = Members(each.nodes, tuple(sorted(own)))
            idle -= own
    return found


def _with_added(kernels: Sequence[Kernel], found: list[Members]) -> list[Members]:
    """Assigns each kernel without nodes to those of its readers, or else of its makers.

    Readers are found from the last kernel to the first, so that several added kernels in a row need one pass.
    """
    makers: dict[str, list[int]] = defaultdict(list)
    readers: dict[str, list[int]] = defaultdict(list)
    for place, kernel in enumerate(kernels):
        for value in kernel.outputs:
            makers[value].append(place)
        for value in kernel.reads:
            readers[value].append(place)
    found = list(found)
    for forwards, places in ((True, range(len(kernels) - 1, -1, -1)), (False, range(len(kernels)))):
        for place in places:
            if found[place].nodes:
                continue
            kernel = kernels[place]
            values, others = (kernel.outputs, readers) if forwards else (kernel.reads, makers)
            near = {node for value in values for other in others[value] for node in found[other].nodes}
            found[place] = Members(tuple(sorted(near)), (), added=bool(near))
    return found


@dataclass(frozen=True, slots=True)
class _View:
    source: Prepared
    rows: Sequence[NodeRow]
    outputs: frozenset[str]
    """The outputs of the model."""
    readers: dict[str, int]
    """Number of nodes that read each tensor."""
    parts: Counter[int]
    """Number of the source's nodes for each row; more than one if the row calls a function with several nodes."""
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
    """Returns a row for each kernel that ran, the slowest first."""
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
    # The member with the most operations comes first, because it characterizes a fused kernel.
    rows = sorted(_model_rows(members.nodes, view), key=lambda each: -(each.cost.operations or 0))
    row = OpTimeRow(
        kernel=_NUMBERED.sub(lambda match: _name_of(int(match[1]), view), kernel.name),
        operator=kernel.operator,
        time_ms=kernel.time_ms,
        share=kernel.time_ms / total,
        members=tuple(dict.fromkeys(name_of(each) for each in rows)),
        categories=tuple(dict.fromkeys(each.category for each in rows if each.category)),
        added=members.added,
        range_ms=kernel.range_ms,
    )
    # The time of a loop itself is not that of its body.
    if holds_others or not members.own:
        return row
    operations, moved = _work(kernel, members.own, view)
    if operations is None or moved is None:
        return row
    best = _minimum(kernel, _model_rows(members.own, view), operations, moved, view)
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
    """Returns the operations and moved bytes of a run; tensors between nodes of one kernel are not moved."""
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


def _minimum(
    kernel: Kernel, rows: Sequence[NodeRow], operations: int, moved: int, view: _View
) -> LowerBound | None:
    if view.device is None or all(row.operator in HOLDERS for row in rows):
        return None
    heaviest = max(rows, key=lambda row: row.cost.operations or 0)
    in_what = kernel.precision or precision(heaviest, view.dequantized)
    best = minimum(view.device, in_what, view.threads, operations, moved)
    return best if isinstance(best, LowerBound) else None
