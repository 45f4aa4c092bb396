"""Two models as two drawings with the same places: nodes that belong together lie at the same height.

Both are laid out as one graph; each drawing leaves out what the other model alone has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from msgspec.structs import replace as replaced

from edgeopt.diagram.merging import MergedNode, label_of, merged
from edgeopt.diagram.outline import (
    Edge,
    Leaf,
    OutlineGroup,
    Path,
    Value,
    Wiring,
    levels_of,
    outline,
    wire,
)
from edgeopt.diagram.scene import Diagram, End, Line, Scene
from edgeopt.graph.analysis.records import NodeRow, TensorFacts
from edgeopt.graph.diff import GraphDiff

_ABSENT = "\0"
"""The name of an input or output that only the other model has."""


class DiagramModel(NamedTuple):
    nodes: Sequence[NodeRow]
    inputs: Sequence[TensorFacts]
    outputs: Sequence[TensorFacts]


@dataclass(frozen=True, slots=True)
class Beside:
    """Diagrams of two models and of both together, with the same paths and positions of nodes in all three."""

    both: Diagram
    """Diagram of both models together, which is laid out."""
    sides: tuple[Diagram, Diagram]
    elsewhere: tuple[Mapping[int, int], Mapping[int, int]]
    """Positions of counterparts elsewhere: for each side, from a node to the one that took it in."""
    _lines: tuple[frozenset[tuple[Path, Edge]], frozenset[tuple[Path, Edge]]] = field(repr=False)
    """The edges that each side has, by the group they lie in."""

    def scenes(self, whole: Scene) -> tuple[Scene, Scene]:
        return self._scene(whole, 0), self._scene(whole, 1)

    def shows(self, side: int, path: Path) -> bool:
        item = self.sides[side].item(path)
        return item.tensor.name != _ABSENT if isinstance(item, End) else item.nodes_count > 0

    def counterpart(self, side: int, path: Path) -> Path | None:
        """Returns the path of an item's counterpart on the other side, or None if it has none."""
        if self.shows(1 - side, path):
            return path
        item = self.sides[side].item(path)
        position = item.position if isinstance(item, Leaf) else getattr(item, "holder", None)
        other = None if position is None else self.elsewhere[side].get(position)
        return None if other is None else self.both.wiring.paths.get(other)

    def _scene(self, whole: Scene, side: int) -> Scene:
        diagram, lines = self.sides[side], self._lines[side]
        boxes = (box for box in whole.boxes if self.shows(side, box.path))
        return Scene(
            tuple(replace(box, item=diagram.item(box.path)) for box in boxes),
            tuple(line for line in whole.lines if _edge_of(line) in lines),
            whole.width,
            whole.height,
        )


def beside(
    first: DiagramModel, second: DiagramModel, partners: Sequence[tuple[str, str]], changes: GraphDiff
) -> Beside:
    """`partners` are the labels of nodes that belong together, `changes` says what became of the others."""
    found = merged(first.nodes, second.nodes, partners)
    rows = tuple(replaced(each.row, position=at, inside=each.inside) for at, each in enumerate(found))
    inputs = _named_once(first.inputs, second.inputs)
    outputs = _named_once(first.outputs, second.outputs)
    top = outline(rows)
    sides: list[_Side] = []
    for number, model in enumerate((first, second)):
        sides.append(_side(found, number, model, (inputs, outputs), top))
    values = tuple({key: value for side in reversed(sides) for key, value in side.values.items()}.items())
    numbers = {key: number for number, (key, _) in enumerate(values)}
    edges: dict[Path, dict[Edge, None]] = {path: {} for path in sides[0].wiring.levels}
    diagrams: list[Diagram] = []
    lines: list[frozenset[tuple[Path, Edge]]] = []
    for side in sides:
        own = {
            path: [_numbered(edge, numbers[side.keys[edge.value]]) for edge in level.edges]
            for path, level in side.wiring.levels.items()
        }
        for path, its in own.items():
            edges[path].update(dict.fromkeys(its))
        lines.append(frozenset((path, edge) for path, its in own.items() for edge in its))
        wiring = Wiring(
            tuple(side.values.get(key, value) for key, value in values), levels_of(own), side.wiring.paths
        )
        diagrams.append(Diagram(side.rows, side.top, wiring, side.inputs, side.outputs))
    wiring = Wiring(tuple(value for _, value in values), levels_of(edges), sides[0].wiring.paths)
    return Beside(
        Diagram(rows, top, wiring, inputs, outputs),
        (diagrams[0], diagrams[1]),
        _elsewhere(found, partners, changes),
        (lines[0], lines[1]),
    )


_ValueKey = tuple[int, int]
"""Who makes a value, and as which of its outputs."""


@dataclass(frozen=True, slots=True)
class _Side:
    rows: tuple[NodeRow, ...]
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    top: OutlineGroup
    wiring: Wiring
    keys: tuple[_ValueKey, ...]
    """Key of each value of the wiring."""
    values: dict[_ValueKey, Value]


def _side(
    found: Sequence[MergedNode],
    number: int,
    model: DiagramModel,
    ends: tuple[Sequence[TensorFacts], Sequence[TensorFacts]],
    top: OutlineGroup,
) -> _Side:
    own = [each.second if number else each.first for each in found]
    rows = tuple(
        replaced(row, position=at, inside=each.inside)
        if row is not None
        else NodeRow(at, "", "", "", (), (), 0, 0, each.inside)
        for at, (each, row) in enumerate(zip(found, own, strict=True))
    )
    inputs = _ends(ends[0], model.inputs)
    outputs = _ends(ends[1], model.outputs)
    wiring = wire(rows, top, inputs, outputs)
    keys = tuple(
        (value.producer, 0)
        if value.producer < 0
        else (value.producer, [tensor.name for tensor in rows[value.producer].outputs].index(value.name))
        for value in wiring.values
    )
    present = {at for at, row in enumerate(own) if row is not None}
    here = _present_group(top, present)
    return _Side(rows, inputs, outputs, here, wiring, keys, dict(zip(keys, wiring.values, strict=True)))


def _ends(both: Sequence[TensorFacts], own: Sequence[TensorFacts]) -> tuple[TensorFacts, ...]:
    named = {tensor.name: tensor for tensor in own}
    return tuple(named.get(tensor.name, TensorFacts(_ABSENT)) for tensor in both)


def _present(item: Leaf | OutlineGroup, present: set[int]) -> Leaf | OutlineGroup:
    """An absent node is a group without content, so that paths stay what they are."""
    if isinstance(item, Leaf):
        return item if item.position in present else OutlineGroup("", (), 0)
    return _present_group(item, present)


def _present_group(item: OutlineGroup, present: set[int]) -> OutlineGroup:
    children = tuple(_present(child, present) for child in item.children)
    holder = item.holder if item.holder in present else None
    count = sum(child.nodes_count for child in children) + (holder is not None)
    return OutlineGroup(item.title, children, count, holder)


def _elsewhere(
    found: Sequence[MergedNode], partners: Sequence[tuple[str, str]], changes: GraphDiff
) -> tuple[dict[int, int], dict[int, int]]:
    places: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for at, each in enumerate(found):
        for side, row in zip(places, (each.first, each.second), strict=True):
            if row is not None and not row.inside:
                side.setdefault(label_of(row), at)
    taken_in = [(change.node, change.other) for change in changes.changes if change.status == "fused into"]
    to_second: dict[int, int] = {}
    to_first: dict[int, int] = {}
    for a, b in (*partners, *taken_in):
        if a in places[0] and b in places[1] and places[0][a] != places[1][b]:
            to_second.setdefault(places[0][a], places[1][b])
            to_first.setdefault(places[1][b], places[0][a])
    return to_second, to_first


def _named_once(first: Sequence[TensorFacts], second: Sequence[TensorFacts]) -> tuple[TensorFacts, ...]:
    return tuple({tensor.name: tensor for tensor in (*second, *first)}[name] for name in _names(first, second))


def _names(first: Sequence[TensorFacts], second: Sequence[TensorFacts]) -> list[str]:
    return list(dict.fromkeys(tensor.name for tensor in (*first, *second)))


def _numbered(edge: Edge, value: int) -> Edge:
    return Edge(edge.source, edge.target, value)


def _edge_of(line: Line) -> tuple[Path, Edge]:
    """Returns the edge of a line, with the path of the group that it lies in."""
    end = line.source or line.target or ()
    source, target = (None if path is None else path[-1] for path in (line.source, line.target))
    return end[:-1], Edge(source, target, line.value)
