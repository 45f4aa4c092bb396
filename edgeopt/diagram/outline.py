"""The nodes of a model folded into nested groups: by scope of their names or weights, by repetition, by cutting.

A group is a run of nodes in program order. Runs of a topological order never form a cycle, whatever is folded.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from edgeopt.graph.analysis.records import NodeRow, TensorFacts

MAX_CHILDREN = 300
"""Boxes in one group; a longer run is cut into parts."""
MAX_AT_A_GLANCE = 60
"""Boxes of the outermost level."""
_MIN_NODES = 4
"""A smaller group is more frame than content."""
_MIN_BLOCK = 8
_LONGEST_BLOCK = 400
"""Nodes or groups in one repeated block."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One node, by its position in the analysis."""

    position: int
    operator: str

    @property
    def nodes_count(self) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class OutlineGroup:
    title: str
    children: "tuple[Leaf | OutlineGroup, ...]"
    nodes_count: int
    holder: int | None = None
    """The node whose branch or body this is."""


_Scopes = dict[int, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Entry:
    item: Leaf | OutlineGroup
    scopes: tuple[str, ...]
    signature: str


def outline(nodes: Sequence[NodeRow]) -> OutlineGroup:
    """All nodes of a model but constants, as one group of groups."""
    scopes = _scopes(nodes)
    children = tuple(_in_parts(_fold(list(_entries(nodes, scopes))), nodes))
    while len(children) == 1 and isinstance(children[0], OutlineGroup) and children[0].holder is None:
        children = children[0].children
    return OutlineGroup("", children, sum(child.nodes_count for child in children))


def leaves(item: Leaf | OutlineGroup) -> Iterator[int]:
    """Positions of all nodes in an item, holders included."""
    if isinstance(item, Leaf):
        yield item.position
        return
    if item.holder is not None:
        yield item.holder
    for child in item.children:
        yield from leaves(child)


def _entries(nodes: Sequence[NodeRow], scopes: _Scopes) -> Iterator[_Entry]:
    """The nodes of one graph; one with branches or a body is a group of these."""
    at = 0
    while at < len(nodes):
        node = nodes[at]
        prefix = inside_of(node)
        end = at + 1
        while end < len(nodes) and nodes[end].inside.startswith(prefix) and nodes[end].inside != node.inside:
            end += 1
        inner = nodes[at + 1 : end]
        at = end
        if is_constant(node):
            continue
        if inner:
            parts = tuple(_bodies(inner, prefix, scopes))
            count = 1 + sum(part.nodes_count for part in parts)
            group = OutlineGroup(
                f"{node.operator} {node.name.rpartition('/')[2]}".strip(), parts, count, node.position
            )
            yield _Entry(group, scopes[node.position], f"{node.operator}[{count}]")
        else:
            shapes = [tensor.shape for tensor in node.outputs]
            ranks = ",".join("?" if shape is None else str(len(shape)) for shape in shapes)
            leaf = Leaf(node.position, node.operator)
            yield _Entry(leaf, scopes[node.position], f"{node.domain}:{node.operator}:{len(node.inputs)}:{ranks}")


def is_constant(node: NodeRow) -> bool:
    """Whether the node is a constant, which counts as a weight of the nodes that read it."""
    return node.operator == "Constant" and not node.inputs


def inside_of(holder: NodeRow) -> str:
    """Returns the start of `inside` for the nodes that this node holds; the name of the branch follows."""
    return f"{holder.inside}{'/' if holder.inside else ''}{holder.name or holder.operator}/"


def _bodies(inner: Sequence[NodeRow], prefix: str, scopes: _Scopes) -> Iterator[OutlineGroup]:
    """The branches of an If, or the body of a loop."""
    for branch, run in groupby(inner, key=lambda node: node.inside[len(prefix) :].partition("/")[0]):
        children = _fold(list(_entries(list(run), scopes)))
        yield OutlineGroup(branch, children, sum(child.nodes_count for child in children))


def _scopes(nodes: Sequence[NodeRow]) -> _Scopes:
    """Returns the scopes of nodes by position: `/encoder/layer.0/attention/MatMul` lies in three.

    Where no name is such a path, those of weights are; a node without weights is in the scope of what it reads.
    """
    named = {node.position: tuple(part for part in node.name.split("/") if part)[:-1] for node in nodes}
    if any(named[node.position] for node in nodes if not is_constant(node)):
        return named
    made = {tensor.name: node.position for node in nodes for tensor in node.outputs}
    weighted = {node.position for node in nodes if node.weights_bytes}
    readers = Counter(
        name for node in nodes for name in {tensor.name for tensor in node.inputs} if name not in made
    )
    own = {node.position: _own_scope(node, readers) for node in nodes}
    for node in reversed(nodes):
        # The bias of a product has kept its name where the weight, transposed in the file, has not.
        for tensor in node.inputs:
            maker = made.get(tensor.name, -1)
            if own[node.position] and maker in weighted and not own[maker]:
                own[maker] = own[node.position]
    found: _Scopes = {}
    for node in nodes:
        makers = sorted((made[tensor.name] for tensor in node.inputs if tensor.name in made), reverse=True)
        before = [found[maker] for maker in makers if maker in found]
        found[node.position] = next(filter(None, (own[node.position], *before)), ())
    return found


def _own_scope(node: NodeRow, readers: Mapping[str, int]) -> tuple[str, ...]:
    """Returns the scope in the name of the node or of a weight that only this node reads."""
    weights = [tensor.name for tensor in node.inputs if readers[tensor.name] == 1] if node.weights_bytes else []
    return next(filter(None, map(_module, (node.name, *weights))), ())


def _module(name: str) -> tuple[str, ...]:
    """`encoder.layer.0.attention.weight` lies in three scopes too: a number belongs to the word before it."""
    parts = name.split(".") if name.count(".") > 1 else []
    found: list[str] = []
    for part in parts[:-1]:
        if part.isdigit() and found:
            found[-1] += f".{part}"
        else:
            found.append(part)
    return tuple(found)


def _fold(entries: list[_Entry]) -> tuple[Leaf | OutlineGroup, ...]:
    folded = _by_scope(entries, 0)
    folded = _by_repetition(folded)
    return tuple(entry.item for entry in _by_cutting(folded))


def _by_scope(entries: list[_Entry], depth: int) -> list[_Entry]:
    """A run in one scope is a group; nodes without any scope in between belong to it."""
    result: list[_Entry] = []
    at = 0
    while at < len(entries):
        if len(entries[at].scopes) <= depth:
            result.append(entries[at])
            at += 1
            continue
        scope = entries[at].scopes[depth]
        end = last = at + 1
        while end < len(entries) and (
            not entries[end].scopes or entries[end].scopes[depth : depth + 1] == (scope,)
        ):
            if entries[end].scopes:
                last = end + 1
            end += 1
        run = entries[at:last]
        at = last
        inner = _by_repetition(_by_scope(run, depth + 1))
        if sum(entry.item.nodes_count for entry in run) < _MIN_NODES:
            result.extend(inner)
            continue
        result.append(_group(scope, inner, run[0].scopes[:depth]))
    return result


def _group(title: str, entries: list[_Entry], scopes: tuple[str, ...]) -> _Entry:
    children = tuple(entry.item for entry in _by_cutting(entries))
    if len(children) == 1 and isinstance(children[0], OutlineGroup) and children[0].holder is None:
        title, children = f"{title}/{children[0].title}", children[0].children
    count = sum(child.nodes_count for child in children)
    signature = f"({' '.join(entry.signature for entry in entries)})"
    return _Entry(OutlineGroup(title, children, count), scopes, signature)


def _by_repetition(entries: list[_Entry]) -> list[_Entry]:
    """Blocks that follow each other in the same form become groups: `block 2 of 6`."""
    if _count(entries) < 2 * _MIN_BLOCK:
        return entries
    found = _repetition([entry.signature for entry in entries], lambda a, b: _count(entries[a:b]) >= _MIN_BLOCK)
    if found is None:
        return entries
    start, period, times = found
    if period == 1 and isinstance(entries[start].item, OutlineGroup):
        # Groups already, with names that say more.
        end = start + times
        return [*_by_repetition(entries[:start]), *entries[start:end], *_by_repetition(entries[end:])]
    blocks = [
        _group(f"block {turn + 1} of {times}", entries[start + turn * period : start + (turn + 1) * period], ())
        for turn in range(times)
    ]
    after = start + period * times
    return [*_by_repetition(entries[:start]), *blocks, *_by_repetition(entries[after:])]


def _count(entries: list[_Entry]) -> int:
    return sum(entry.item.nodes_count for entry in entries)


def _repetition(signatures: list[str], large_enough: Callable[[int, int], bool]) -> tuple[int, int, int] | None:
    """Start, length and number of the consecutive equal blocks that cover most; the shortest block of these."""
    import numpy as np

    numbers = {signature: number for number, signature in enumerate(dict.fromkeys(signatures))}
    codes = np.array([numbers[signature] for signature in signatures])
    best: tuple[int, int, int] | None = None
    covered = 0
    for period in range(1, min(_LONGEST_BLOCK, len(codes) // 2) + 1):
        # Where a run of equal pairs, a period apart, begins and ends.
        equal = np.concatenate(([0], codes[:-period] == codes[period:], [0])).astype(np.int8)
        edges = np.diff(equal)
        starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
        times = (ends - starts) // period + 1
        for index in np.flatnonzero((times > 1) & (times * period > covered)):
            start, count = int(starts[index]), int(times[index])
            if count * period > covered and large_enough(start, start + period):
                best, covered = (start, period, count), count * period
    return best


def _by_cutting(entries: list[_Entry]) -> list[_Entry]:
    """Returns the entries, cut into parts of equal length if there are more than `MAX_CHILDREN`."""
    if len(entries) <= MAX_CHILDREN:
        return entries
    length = max(_MIN_NODES, -(-len(entries) // MAX_CHILDREN), round(len(entries) ** 0.5))
    parts: list[_Entry] = []
    for start in range(0, len(entries), length):
        part = entries[start : start + length]
        children = tuple(entry.item for entry in part)
        title = f"part {start // length + 1}"
        parts.append(_Entry(OutlineGroup(title, children, _count(part)), (), title))
    return _by_cutting(parts)


def _in_parts(items: "Sequence[Leaf | OutlineGroup]", nodes: Sequence[NodeRow]) -> "list[Leaf | OutlineGroup]":
    """A level with too many boxes to look at is cut where the fewest values pass."""
    if len(items) <= MAX_AT_A_GLANCE:
        return list(items)
    place = {position: at for at, item in enumerate(items) for position in leaves(item)}
    last_read: dict[str, int] = {}
    for node in nodes:
        last_read.update((tensor.name, place[node.position]) for tensor in node.inputs if node.position in place)
    passing = [0] * (len(items) + 1)
    for node in nodes:
        made = place.get(node.position, len(items))
        for tensor in node.outputs:
            for border in range(made + 1, last_read.get(tensor.name, made) + 1):
                passing[border] += 1
    length = max(_MIN_BLOCK, round(len(items) ** 0.5))
    borders = [0]
    while len(items) - borders[-1] > length * 3 // 2:
        near = range(borders[-1] + length // 2, borders[-1] + length * 3 // 2)
        borders.append(min(near, key=lambda at: (passing[at], abs(at - borders[-1] - length))))
    parts = [items[start:end] for start, end in pairwise((*borders, len(items)))]
    return [
        OutlineGroup(f"part {at} of {len(parts)}", tuple(part), sum(item.nodes_count for item in part))
        for at, part in enumerate(parts, 1)
    ]


Path = tuple[int, ...]
"""The way to an item from the top: the index among the children at each level."""


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor that flows from one node, or from an input of the model, to others."""

    name: str
    producer: int
    """Position of a node, or `-1 - n` for the model's n-th input."""
    label: str
    """`1x64x56x56`."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Between two children of a group; None for the border of the group itself."""

    source: int | None
    target: int | None
    value: int


@dataclass(frozen=True, slots=True)
class OutlineLevel:
    """Content of one group when it is open."""

    edges: tuple[Edge, ...]
    entering: tuple[int, ...]
    """Values that come from outside, in the order of their producers."""
    leaving: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Wiring:
    values: tuple[Value, ...]
    levels: dict[Path, OutlineLevel]
    paths: dict[int, Path]
    """Path of each node."""


def wire(
    nodes: Sequence[NodeRow], top: OutlineGroup, inputs: Sequence[TensorFacts], outputs: Sequence[TensorFacts]
) -> Wiring:
    """Resolves tensor names to the nodes that make and read them, and splits each connection at the borders.

    The children of the top group are those of `top`, preceded by the model's inputs and followed by its outputs.
    """
    paths = _paths(top, len(inputs), len(outputs))
    values: list[Value] = []
    edges: dict[Path, dict[Edge, None]] = {path: {} for path in _groups(top, len(inputs))}
    edges[()] = {}
    for number, reader in _uses(nodes, inputs, outputs, values):
        maker = values[number].producer
        if maker in paths and reader in paths:
            _connect(edges, paths[maker], paths[reader], number)
    return Wiring(tuple(values), levels_of(edges), paths)


def levels_of(edges: Mapping[Path, Iterable[Edge]]) -> dict[Path, OutlineLevel]:
    return {
        path: OutlineLevel(
            tuple(found),
            tuple(sorted({edge.value for edge in found if edge.source is None})),
            tuple(sorted({edge.value for edge in found if edge.target is None})),
        )
        for path, found in edges.items()
    }


def output_position(number: int, inputs_count: int) -> int:
    """Returns the key in `paths` of the model's n-th output."""
    return -1 - inputs_count - number


def _paths(top: OutlineGroup, inputs_count: int, outputs_count: int) -> dict[int, Path]:
    paths: dict[int, Path] = {-1 - number: (number,) for number in range(inputs_count)}

    def visit(item: Leaf | OutlineGroup, path: Path) -> None:
        if isinstance(item, Leaf):
            paths[item.position] = path
            return
        if item.holder is not None:
            paths[item.holder] = path
        for index, child in enumerate(item.children):
            visit(child, (*path, index))

    for index, child in enumerate(top.children):
        visit(child, (inputs_count + index,))
    after = inputs_count + len(top.children)
    for number in range(outputs_count):
        paths[output_position(number, inputs_count)] = (after + number,)
    return paths


def _groups(top: OutlineGroup, inputs_count: int) -> Iterator[Path]:
    def visit(item: Leaf | OutlineGroup, path: Path) -> Iterator[Path]:
        if isinstance(item, OutlineGroup):
            yield path
            for index, child in enumerate(item.children):
                yield from visit(child, (*path, index))

    for index, child in enumerate(top.children):
        yield from visit(child, (inputs_count + index,))


def _uses(
    nodes: Sequence[NodeRow], inputs: Sequence[TensorFacts], outputs: Sequence[TensorFacts], values: list[Value]
) -> Iterator[tuple[int, int]]:
    """Each value with each node that reads it. An inner graph sees the names of those around it."""
    scopes: list[tuple[str, dict[str, int]]] = [("", {})]

    def found(name: str) -> int | None:
        return next((names[name] for _, names in reversed(scopes) if name in names), None)

    def define(tensor: TensorFacts, producer: int) -> None:
        scopes[-1][1][tensor.name] = len(values)
        values.append(Value(tensor.name, producer, shape_label(tensor)))

    for index, tensor in enumerate(inputs):
        define(tensor, -1 - index)
    for node in nodes:
        _enter(scopes, node.inside)
        for tensor in node.inputs:
            if (number := found(tensor.name)) is not None:
                yield number, node.position
        if is_constant(node):
            continue
        for tensor in node.outputs:
            if tensor.name:
                define(tensor, node.position)
    for index, tensor in enumerate(outputs):
        if tensor.name in scopes[0][1]:
            yield scopes[0][1][tensor.name], output_position(index, len(inputs))


def _enter(scopes: list[tuple[str, dict[str, int]]], inside: str) -> None:
    """Leaves the inner graphs that ended, and enters the one that begins."""
    while len(scopes) > 1 and inside != scopes[-1][0] and not inside.startswith(f"{scopes[-1][0]}/"):
        scopes.pop()
    if inside != scopes[-1][0]:
        scopes.append((inside, {}))


def shape_label(tensor: TensorFacts) -> str:
    if tensor.shape is None:
        return ""
    sizes = ["?" if size is None else str(size) for size in tensor.shape]
    # Names of dimensions would run together.
    return "x".join(sizes) if all(map(str.isdigit, sizes)) else f"[{', '.join(sizes)}]"


def _connect(edges: dict[Path, dict[Edge, None]], source: Path, target: Path, value: int) -> None:
    """One segment at the level where both ways part, others from border to border within each group."""
    shared = 0
    while shared < min(len(source), len(target)) and source[shared] == target[shared]:
        shared += 1
    if shared == len(source) or shared == len(target):
        # The node that holds a body and a node of that body: the body reads from its border.
        if shared == len(source) < len(target):
            for depth in range(shared, len(target)):
                edges[target[:depth]][Edge(None, target[depth], value)] = None
        return
    edges[source[:shared]][Edge(source[shared], target[shared], value)] = None
    for depth in range(shared + 1, len(source)):
        edges[source[:depth]][Edge(source[depth], None, value)] = None
    for depth in range(shared + 1, len(target)):
        edges[target[:depth]][Edge(None, target[depth], value)] = None
