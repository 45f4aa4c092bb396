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
from edgeopt.graph.analysis.roofline import Least, least, precision
from edgeopt.graph.analysis.sums import HOLDERS
from edgeopt.hw.device import Device

if TYPE_CHECKING:
    import onnx_ir as ir

    from edgeopt.graph.model import Model


NAME = "edgeopt_{}"
_POSITION = "edgeopt.position"


@dataclass(frozen=True, slots=True)
class SourceNode:
    """A node as the runtime gets it."""

    name: str
    row: int
    """The place among the rows of the analysis."""
    operator: str
    reads: tuple[str, ...]
    """With what the bodies in it read."""
    outputs: tuple[str, ...]
    fixed: bool = False
    """It computes the same in every run, so that runtimes do it once before."""


@dataclass(frozen=True, slots=True)
class Prepared:
    path: Path
    nodes: tuple[SourceNode, ...]


def prepared(path: Path, folder: Path) -> Prepared:
    """Writes the copy; an analysis has a row for each node in the order of the file, bodies after their nodes."""
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
    """For a model that is timed as it is, whose nodes have names of their own already."""
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
    """Those that hang on no input of the model and draw no random numbers."""
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
    """Weights in files of their own stay there: the files are linked, or copied where that is not possible."""
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
    """The nodes behind a kernel, by their place in the source."""

    nodes: tuple[int, ...] = ()
    own: tuple[int, ...] = ()
    """Those whose work is counted here; the others are with another kernel that stands for them too."""
    added: bool = False
    """The kernel stands for no node itself; the nodes are those that it works for."""


class _Finder:
    def __init__(self, nodes: Sequence[SourceNode]) -> None:
        self.nodes = nodes
        self.by_name: dict[str, int] = {}
        self.made_by: dict[str, int] = {}
        for place, node in reversed(list(enumerate(nodes))):
            self.by_name[node.name] = place
            for value in node.outputs:
                self.made_by[value] = place

    def told(self, kernel: Kernel) -> list[int]:
        """Lists folded constants too, although they are not the kernel's work."""
        found = [place for text in kernel.sources for place in self._named(text)]
        given = [self.made_by[value] for value in kernel.outputs if value in self.made_by]
        places = list(dict.fromkeys((*found, *given)))
        return [place for place in places if not self.nodes[place].fixed] or places

    def _named(self, text: str) -> list[int]:
        numbers = [int(number) for number in _NUMBERED.findall(text)[:1] if text.startswith(NAME[:-2])]
        if numbers:
            return [number for number in numbers if number < len(self.nodes)]
        while text:
            for known in (self.by_name, self.made_by):
                if text in known:
                    return [known[text]]
            # The end tells which part or which result it is: `conv/WithoutBiases`, `scores.0`.
            text = _RESULT.sub("", text) if _RESULT.search(text) else text.rpartition("/")[0]
        return []

    def between(self, begin: Iterable[int], taken: set[int]) -> list[int]:
        """The nodes before these that no kernel represents."""
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
    """For each kernel, in the same order; empty where nothing is known."""
    finder = _Finder(nodes)
    told = [finder.told(kernel) for kernel in kernels]
    owner: dict[int, int] = {}
    for place in sorted(range(len(kernels)), key=lambda place: -kernels[place].time_ms):
        for node in told[place]:
            owner.setdefault(node, place)
            if _alike(kernels[place], nodes[node]) and not _alike(kernels[owner[node]], nodes[node]):
                owner[node] = place
    taken = set(owner)
    found = []
    for place, direct in enumerate(told):
        own = [node for node in direct if owner[node] == place]
        between = finder.between(own, taken)
        added = bool(direct) and not own
        found.append(Members(tuple(sorted({*direct, *between})), tuple(sorted({*own, *between})), added))
    return _with_own(kernels, _with_added(kernels, found))


def _alike(kernel: Kernel, node: SourceNode) -> bool:
    """Whether the kernel does what the operator says, and not what had to be done around it."""
    if kernel.operator == "FullyConnected":
        return node.operator in {"MatMul", "Gemm"}
    mine, its = kernel.operator.lower(), node.operator.lower()
    return bool(kernel.calls) and (its in mine or mine.startswith(its[:4]))


def _with_own(kernels: Sequence[Kernel], found: list[Members]) -> list[Members]:
    """Gives the nodes of what only passes tensors on to the kernel that works for it and does the same."""
    idle = {node for kernel, each in zip(kernels, found, strict=True) if not kernel.calls for node in each.own}
    for place in sorted(range(len(kernels)), key=lambda place: -kernels[place].time_ms):
        each = found[place]
        if each.added and kernels[place].calls and (own := idle & set(each.nodes)):
            found[place] = Members(each.nodes, tuple(sorted(own)))
            idle -= own
    return found


def _with_added(kernels: Sequence[Kernel], found: list[Members]) -> list[Members]:
    """Against the order of work first, so that several added ones in a row are settled in one go."""
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
        range_ms=kernel.range_ms,
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
