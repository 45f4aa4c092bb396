"""A model as boxes and lines in one plane, with some groups open and the others folded."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from edgeopt.diagram.layered import BoxSize, Knots, Link, NodePlacement, place
from edgeopt.diagram.outline import Leaf, OutlineGroup, OutlineLevel, Path, Value, Wiring, outline, wire
from edgeopt.graph.analysis.records import NodeRow, TensorFacts

MAX_BOXES = 120
"""Boxes that a diagram shows at first."""
_MAX_BLOCKS = 40
_BLOCK_PART = 4
"""A block with a larger part of the nodes is opened: it says too little."""
Level = Literal["blocks", "layers", "nodes"]
"""Extent to which a diagram is open: outer groups, all but the innermost groups, or everything."""
LEVELS: tuple[Level, ...] = ("blocks", "layers", "nodes")
_CHARACTER = 7.2
_PADDING = 14.0
_LEAF_HEIGHT = 40.0
_END_HEIGHT = 26.0
_WIDEST = 220.0
_TITLE = 24.0
_FRAME = 14.0
_PORT = 6.0


@dataclass(frozen=True, slots=True)
class End:
    """An input or an output of the model."""

    tensor: TensorFacts
    is_input: bool


@dataclass(frozen=True, slots=True)
class Box:
    path: Path
    item: Leaf | OutlineGroup | End
    left: float
    top: float
    width: float
    height: float
    is_open: bool
    """A group whose children are shown inside."""


@dataclass(frozen=True, slots=True)
class Line:
    knots: Knots
    value: int
    source: Path | None
    """The child that it comes from; None at the border of the group."""
    target: Path | None


@dataclass(frozen=True, slots=True)
class Scene:
    boxes: tuple[Box, ...]
    """Outer before inner."""
    lines: tuple[Line, ...]
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Diagram:
    """A model's outline and connections: what a scene is laid out from."""

    nodes: tuple[NodeRow, ...]
    top: OutlineGroup
    wiring: Wiring
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]

    @property
    def values(self) -> tuple[Value, ...]:
        return self.wiring.values

    def item(self, path: Path) -> Leaf | OutlineGroup | End:
        index = path[0]
        if index < len(self.inputs):
            return End(self.inputs[index], True)
        after = index - len(self.inputs) - len(self.top.children)
        if after >= 0:
            return End(self.outputs[after], False)
        item: Leaf | OutlineGroup = self.top.children[index - len(self.inputs)]
        for step in path[1:]:
            item = item.children[step] if isinstance(item, OutlineGroup) else item
        return item

    def count(self, path: Path) -> int:
        """Boxes directly inside a group; the top group's path is empty."""
        if not path:
            return len(self.inputs) + len(self.top.children) + len(self.outputs)
        item = self.item(path)
        return len(item.children) if isinstance(item, OutlineGroup) else 0

    def outputs_of(self, path: Path) -> list[str]:
        """The shapes of what leaves a group."""
        leaving = self.wiring.levels[path].leaving if path in self.wiring.levels else ()
        return [self.values[value].label for value in leaving if self.values[value].label]

    def group_line(self, path: Path) -> str:
        """The line below the title of a folded group: `12 nodes, 1x64x56x56`."""
        return ", ".join((f"{self.nodes_count(path):,} nodes", *self.outputs_of(path)[-1:]))

    def nodes_count(self, path: Path) -> int:
        item = self.item(path)
        return 1 if isinstance(item, End) else item.nodes_count

    def groups(self) -> Iterator[Path]:
        return (path for path in self.wiring.levels if path)


def diagram_of(nodes: Sequence[NodeRow], inputs: Sequence[TensorFacts], outputs: Sequence[TensorFacts]) -> Diagram:
    top = outline(nodes)
    return Diagram(tuple(nodes), top, wire(nodes, top, inputs, outputs), tuple(inputs), tuple(outputs))


def opened_at_first(diagram: Diagram, max_boxes: int = MAX_BOXES) -> frozenset[Path]:
    """Opens outer groups first, of these the small ones, while the boxes stay few enough.

    Groups of equal content are opened together or not at all.
    """
    return _opened(diagram, diagram.groups(), max_boxes)


def level_at_first(diagram: Diagram) -> Level:
    return "nodes" if len(diagram.wiring.paths) <= MAX_BOXES else "blocks"


def opened_at(diagram: Diagram, level: Level) -> frozenset[Path]:
    groups = frozenset(diagram.groups())
    outer = groups & {path[:-1] for path in groups}
    if level == "blocks":
        maximum = len(diagram.wiring.paths) / _BLOCK_PART
        return _opened(diagram, [path for path in outer if diagram.nodes_count(path) > maximum], _MAX_BLOCKS)
    return groups if level == "nodes" else outer


def _opened(diagram: Diagram, groups: Iterable[Path], max_boxes: int) -> frozenset[Path]:
    opened: set[Path] = set()
    boxes = diagram.count(())
    contents = {path: _content(diagram.item(path)) for path in groups}
    for depth in range(1, 1 + max((len(path) for path in contents), default=0)):
        alike: dict[str, list[Path]] = {}
        for path, content in contents.items():
            if len(path) == depth and (depth == 1 or path[:-1] in opened):
                alike.setdefault(content, []).append(path)
        for paths in sorted(alike.values(), key=lambda paths: diagram.count(paths[0])):
            more = sum(map(diagram.count, paths))
            if boxes + more <= max_boxes:
                opened.update(paths)
                boxes += more
    return frozenset(opened)


def _content(item: Leaf | OutlineGroup | End) -> str:
    """The operators in a group, without the titles of groups: these count blocks and layers."""
    if isinstance(item, Leaf):
        return item.operator
    return f"({' '.join(map(_content, item.children))})" if isinstance(item, OutlineGroup) else ""


@dataclass(slots=True)
class Layout:
    """Lays out a diagram; equal blocks are laid out once, and what did not change is not laid out again."""

    diagram: Diagram
    _placements: "dict[tuple[object, ...], NodePlacement]" = field(default_factory=dict)

    def scene(self, opened: Collection[Path]) -> Scene:
        return _Run(self, frozenset(opened)).scene()

    def place(self, sizes: list[BoxSize], links: list[Link], first: int, last: int) -> NodePlacement:
        key = (tuple(sizes), tuple(links), first, last)
        if key not in self._placements:
            self._placements[key] = place(sizes, links, first, last)
        return self._placements[key]


@dataclass(frozen=True, slots=True)
class _Laid:
    """An open group: where its children lie, and where values cross its border."""

    placement: NodePlacement
    level: OutlineLevel
    size: BoxSize
    entering: dict[int, float]
    leaving: dict[int, float]


@dataclass(slots=True)
class _Run:
    layout: Layout
    opened: frozenset[Path]
    laid: dict[Path, _Laid] = field(default_factory=dict)

    def scene(self) -> Scene:
        levels = self.layout.diagram.wiring.levels
        shown = [path for path in self.opened if path in levels and path and self._reached(path)]
        # Inner groups first: their sizes decide where the outer ones' children lie.
        for path in (*sorted(shown, key=lambda path: (-len(path), path)), ()):
            self.laid[path] = self._lay(path)
        boxes: list[Box] = []
        lines: list[Line] = []
        self._collect((), 0.0, 0.0, boxes, lines)
        size = self.laid[()].size
        return Scene(tuple(boxes), tuple(lines), size.width, size.height)

    def _reached(self, path: Path) -> bool:
        return all(path[:depth] in self.opened for depth in range(1, len(path)))

    def _lay(self, path: Path) -> _Laid:
        diagram = self.layout.diagram
        level = diagram.wiring.levels[path]
        count = diagram.count(path)
        children = [(*path, index) for index in range(count)]
        # The border's ports are boxes too: those above come first, those below last.
        before = len(level.entering)
        ports = {value: index for index, value in enumerate(level.entering)}
        exits = {value: before + count + index for index, value in enumerate(level.leaving)}
        port = BoxSize(_PORT, 0.0)
        sizes = [port] * before + [self._size(child) for child in children] + [port] * len(level.leaving)
        order = {value: index for index, value in enumerate(dict.fromkeys(edge.value for edge in level.edges))}
        reads = self._reads(path, level)
        links: list[Link] = []
        for edge in level.edges:
            source = ports[edge.value] if edge.source is None else before + edge.source
            target = exits[edge.value] if edge.target is None else before + edge.target
            links.append(
                Link(
                    source,
                    _PORT / 2 if edge.source is None else self._leaves_at((*path, edge.source), edge.value),
                    target,
                    _PORT / 2 if edge.target is None else reads[edge.target, edge.value],
                    order[edge.value],
                )
            )
        placement = self.layout.place(sizes, links, before, len(exits))
        frame = _FRAME if path else 0.0
        entering = {value: frame + placement.corners[at][0] + _PORT / 2 for value, at in ports.items()}
        leaving = {value: frame + placement.corners[at][0] + _PORT / 2 for value, at in exits.items()}
        if placement.wrapped and entering:
            # Below where it began, or one group after the other would lie ever farther to the right.
            begin = min(entering.values())
            leaving = {value: begin + number * _PORT for number, value in enumerate(leaving)}
        return _Laid(
            placement,
            level,
            BoxSize(
                max(placement.width + 2 * frame, self._title_width(path)),
                placement.height + 2 * frame + (_TITLE if path else 0.0),
            ),
            entering,
            leaving,
        )

    def _reads(self, path: Path, level: OutlineLevel) -> dict[tuple[int, int], float]:
        """Returns where each child takes each value: at an open child's ports, else spread over its upper side."""
        values: dict[int, list[int]] = {}
        for edge in level.edges:
            if edge.target is not None:
                values.setdefault(edge.target, []).append(edge.value)
        found: dict[tuple[int, int], float] = {}
        for child, read in values.items():
            at = (*path, child)
            inner = self.laid.get(at)
            width = self._size(at).width
            for index, value in enumerate(read):
                spread = width * (0.5 if len(read) == 1 else 0.2 + 0.6 * index / (len(read) - 1))
                found[child, value] = inner.entering.get(value, spread) if inner else spread
        return found

    def _leaves_at(self, path: Path, value: int) -> float:
        inner = self.laid.get(path)
        middle = self._size(path).width / 2
        return inner.leaving.get(value, middle) if inner else middle

    def _size(self, path: Path) -> BoxSize:
        if path in self.laid:
            return self.laid[path].size
        item = self.layout.diagram.item(path)
        if isinstance(item, End):
            return BoxSize(_width(item.tensor.name), _END_HEIGHT)
        if isinstance(item, OutlineGroup):
            return BoxSize(max(_width(item.title), _width(self.layout.diagram.group_line(path))), _LEAF_HEIGHT)
        node = self.layout.diagram.nodes[item.position]
        return BoxSize(max(_width(node.operator), _width(last_part(node.name))), _LEAF_HEIGHT)

    def _title_width(self, path: Path) -> float:
        if not path:
            return 0.0
        item = self.layout.diagram.item(path)
        return _width(item.title) if isinstance(item, OutlineGroup) else 0.0

    def _collect(self, path: Path, left: float, top: float, boxes: list[Box], lines: list[Line]) -> None:
        laid = self.laid[path]
        before = len(laid.level.entering)
        x = left + (_FRAME if path else 0.0)
        y = top + (_FRAME + _TITLE if path else 0.0)
        for index in range(self.layout.diagram.count(path)):
            child = (*path, index)
            at = laid.placement.corners[before + index]
            size = self._size(child)
            item = self.layout.diagram.item(child)
            boxes.append(Box(child, item, x + at[0], y + at[1], size.width, size.height, child in self.laid))
            if child in self.laid:
                self._collect(child, x + at[0], y + at[1], boxes, lines)
        bottom = top + laid.size.height
        for edge, knots in zip(laid.level.edges, laid.placement.routes, strict=True):
            moved = [(x + a, y + b) for a, b in knots]
            if path and edge.source is None:
                moved.insert(0, (moved[0][0], top))
            if path and edge.target is None:
                way_out = left + laid.leaving[edge.value]
                if way_out != moved[-1][0]:
                    below = bottom - _FRAME / 2
                    moved += [(moved[-1][0], below), (way_out, below)]
                moved.append((way_out, bottom))
            lines.append(
                Line(
                    tuple(moved),
                    edge.value,
                    None if edge.source is None else (*path, edge.source),
                    None if edge.target is None else (*path, edge.target),
                )
            )


def last_part(name: str) -> str:
    return name.rpartition("/")[2]


def _width(text: str) -> float:
    return min(_WIDEST, max(64.0, len(text) * _CHARACTER + 2 * _PADDING))
