"""The connections inside each group: between its children, and with what lies outside."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgeopt.diagram.outline import Group, Leaf, is_constant
from edgeopt.graph.analysis.records import NodeRow, Tensor

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
class Level:
    """What one group shows when it is open."""

    edges: tuple[Edge, ...]
    entering: tuple[int, ...]
    """Values that come from outside, in the order of their producers."""
    leaving: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Wiring:
    values: tuple[Value, ...]
    levels: dict[Path, Level]
    paths: dict[int, Path]
    """Where each node is."""


def wire(nodes: Sequence[NodeRow], top: Group, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Wiring:
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
    levels = {
        path: Level(
            tuple(found),
            tuple(sorted({edge.value for edge in found if edge.source is None})),
            tuple(sorted({edge.value for edge in found if edge.target is None})),
        )
        for path, found in edges.items()
    }
    return Wiring(tuple(values), levels, paths)


def output_position(number: int, inputs_count: int) -> int:
    """How `paths` names the model's n-th output."""
    return -1 - inputs_count - number


def _paths(top: Group, inputs_count: int, outputs_count: int) -> dict[int, Path]:
    paths: dict[int, Path] = {-1 - number: (number,) for number in range(inputs_count)}

    def visit(item: Leaf | Group, path: Path) -> None:
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


def _groups(top: Group, inputs_count: int) -> Iterator[Path]:
    def visit(item: Leaf | Group, path: Path) -> Iterator[Path]:
        if isinstance(item, Group):
            yield path
            for index, child in enumerate(item.children):
                yield from visit(child, (*path, index))

    for index, child in enumerate(top.children):
        yield from visit(child, (inputs_count + index,))


def _uses(
    nodes: Sequence[NodeRow], inputs: Sequence[Tensor], outputs: Sequence[Tensor], values: list[Value]
) -> Iterator[tuple[int, int]]:
    """Each value with each node that reads it. An inner graph sees the names of those around it."""
    scopes: list[tuple[str, dict[str, int]]] = [("", {})]

    def found(name: str) -> int | None:
        return next((names[name] for _, names in reversed(scopes) if name in names), None)

    def define(tensor: Tensor, producer: int) -> None:
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


def shape_label(tensor: Tensor) -> str:
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
