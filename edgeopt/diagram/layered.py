"""The layout of one level: boxes in layers from top to bottom, edges as knots.

Layers follow from the longest path, the order within a layer from the parents and then from program order, and
positions from a fixed number of sweeps, so that a small change of a model moves little. Each step takes time about
linear in boxes and edges.
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

LAYER_GAP = 34.0
BOX_GAP = 18.0
EDGE_GAP = 10.0
_TALL = 900.0
"""A level as high as this is wrapped into columns."""
_ASPECT = 1.4
_GUTTER = 72.0
_LANES, _LANE = 8, 6.0
"""Number and width of the lanes for edges from column to column."""
_SWEEPS = 3
_STRAIGHTNESS = 8.0
"""Resistance of an edge to bending, relative to that of a box to being moved."""


@dataclass(frozen=True, slots=True)
class BoxSize:
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Link:
    """An edge between two boxes, with the distance of its ends from their left sides."""

    source: int
    source_x: float
    target: int
    target_x: float
    value: int


Knots = tuple[tuple[float, float], ...]
"""The points of an edge from its source to its target."""


@dataclass(frozen=True, slots=True)
class NodePlacement:
    corners: tuple[tuple[float, float], ...]
    """Left and top of each box."""
    routes: tuple[Knots, ...]
    """Route of each link."""
    width: float
    height: float
    wrapped: bool = False
    """Whether the drawing ends in another column than it begins in."""


@dataclass(slots=True)
class _Cell:
    """A box, or the passage of an edge through a layer."""

    box: int | None
    layer: int
    width: float
    parents: list[tuple["_Cell", float, float]] = field(default_factory=list)
    """Parent cells, with the distances of both ends of the edge from the left sides."""
    children: list[tuple["_Cell", float, float]] = field(default_factory=list)
    x: float = 0.0
    rank: int = 0
    """Program order, where parents say nothing."""


def place(sizes: Sequence[BoxSize], links: Sequence[Link], first: int = 0, last: int = 0) -> NodePlacement:
    """Places boxes whose links all go from a lower to a higher index.

    The given number of boxes at the beginning stays in the first layer, and that at the end in the last one.
    """
    layers_of = _layers(len(sizes), links, first, last)
    cells = [_Cell(box, layers_of[box], size.width, rank=box) for box, size in enumerate(sizes)]
    passages = _passages(cells, links)
    rows = _rows([*cells, *passages.cells])
    for row in rows:
        _spread(row, [_target(cell, cell.parents) for cell in row], reorder=True)
    for _ in range(_SWEEPS):
        for row in reversed(rows[:-1]):
            _spread(row, [_target(cell, cell.children) for cell in row])
        for row in rows[1:]:
            _spread(row, [_target(cell, cell.parents) for cell in row])
    left = min((cell.x for row in rows for cell in row), default=0.0)
    for row in rows:
        for cell in row:
            cell.x -= left
    tops, heights = _heights(rows, sizes)
    columns = _columns(rows, tops, heights)
    column_of = [at for at, column in enumerate(columns) for _ in range(column.first, column.end)]
    routes = tuple(
        _wrapped(
            _route(cells, link, passages.chains.get((link.source, link.value), []), sizes, (tops, heights)),
            [columns[at] for at in column_of],
            link.value,
        )
        for link in links
    )
    corners = []
    for cell in cells:
        column = columns[column_of[cell.layer]]
        corners.append((cell.x + column.right_by, tops[cell.layer] - column.up_by))
    bottom = max((column.bottom for column in columns), default=0.0)
    height = bottom + (_LANES * _LANE if len(columns) > 1 else 0.0)
    width = columns[-1].right if columns else 0.0
    return NodePlacement(tuple(corners), routes, width, height, len(columns) > 1)


def _layers(count: int, links: Sequence[Link], first: int, last: int) -> list[int]:
    layers = [0] * count
    readers: list[list[int]] = [[] for _ in range(count)]
    sources: list[bool] = [True] * count
    for link in sorted(links, key=lambda link: link.target):
        layers[link.target] = max(layers[link.target], layers[link.source] + 1)
        readers[link.source].append(link.target)
        sources[link.target] = False
    for box in range(first, count):
        if sources[box] and readers[box]:
            # What nothing flows into lies just above what reads it.
            layers[box] = max(0, min(layers[reader] for reader in readers[box]) - 1)
    bottom = max(layers, default=0)
    for box in range(count - last, count):
        layers[box] = bottom
    return layers


@dataclass(slots=True)
class _Passages:
    cells: list[_Cell] = field(default_factory=list)
    chains: dict[tuple[int, int], list[_Cell]] = field(default_factory=dict)
    """Passages by source and value: one in each layer that the value crosses."""


def _passages(cells: list[_Cell], links: Sequence[Link]) -> _Passages:
    """All readers of a value share its passages, so that it looks like one line that branches."""
    found = _Passages()
    for link in links:
        source, target = cells[link.source], cells[link.target]
        chain = found.chains.setdefault((link.source, link.value), [])
        while source.layer + 1 + len(chain) < target.layer:
            before, offset = (chain[-1], 0.0) if chain else (source, link.source_x)
            cell = _Cell(None, source.layer + 1 + len(chain), EDGE_GAP, rank=source.rank)
            cell.parents.append((before, offset, 0.0))
            before.children.append((cell, offset, 0.0))
            chain.append(cell)
            found.cells.append(cell)
        before, offset = (
            (source, link.source_x)
            if target.layer <= source.layer + 1
            else (chain[target.layer - source.layer - 2], 0.0)
        )
        target.parents.append((before, offset, link.target_x))
        before.children.append((target, offset, link.target_x))
    return found


def _rows(cells: list[_Cell]) -> list[list[_Cell]]:
    rows: list[list[_Cell]] = [[] for _ in range(max((cell.layer for cell in cells), default=-1) + 1)]
    for cell in cells:
        insort(rows[cell.layer], cell, key=lambda cell: cell.rank)
    return [row for row in rows if row]


def _target(cell: _Cell, others: "list[tuple[_Cell, float, float]]") -> tuple[float, float]:
    """Returns the place of a cell with straight edges, and the weight of that place."""
    if not others:
        return cell.x, 0.1
    downwards = others is cell.parents
    total = weight = 0.0
    for other, at_parent, at_child in others:
        mine, its = (at_child, at_parent) if downwards else (at_parent, at_child)
        strength = _STRAIGHTNESS if cell.box is None or other.box is None else 1.0
        total += strength * (other.x + its - mine)
        weight += strength
    return total / weight, weight


def _spread(row: list[_Cell], targets: list[tuple[float, float]], reorder: bool = False) -> None:
    """Places a row near the target positions without overlap, by merging pools of neighbours."""
    pairs = list(zip(row, targets, strict=True))
    if reorder:
        pairs.sort(key=lambda pair: (pair[1][0] + pair[0].width / 2 if pair[0].parents else 0.0, pair[0].rank))
        row[:] = [cell for cell, _ in pairs]
    pools: list[list[float]] = []  # of each: the start to reach, weight, number of cells
    offsets: list[float] = []
    reached = 0.0
    for cell, (target, weight) in pairs:
        offsets.append(reached)
        pools.append([target - reached, weight, 1])
        reached += cell.width + (EDGE_GAP if cell.box is None else BOX_GAP)
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            second, first = pools.pop(), pools[-1]
            first[0] = (first[0] * first[1] + second[0] * second[1]) / (first[1] + second[1])
            first[1] += second[1]
            first[2] += second[2]
    at = 0
    for start, _, count in pools:
        for _ in range(int(count)):
            pairs[at][0].x = start + offsets[at]
            at += 1


def _heights(rows: list[list[_Cell]], sizes: Sequence[BoxSize]) -> tuple[list[float], list[float]]:
    """Top and height of each layer; a layer after wide bends lies lower."""
    tops: list[float] = []
    heights: list[float] = []
    top = 0.0
    for row in rows:
        height = max((sizes[cell.box].height for cell in row if cell.box is not None), default=0.0)
        tops.append(top)
        heights.append(height)
        bends = [abs(cell.x + mine - child.x - its) for cell in row for child, mine, its in cell.children]
        top += height + LAYER_GAP + min(40.0, max(bends, default=0.0) / 12)
    return tops, heights


@dataclass(frozen=True, slots=True)
class _Column:
    """Consecutive layers; a deep diagram goes on in another column at its right."""

    first: int
    end: int
    right_by: float
    up_by: float
    right: float
    bottom: float


def _columns(rows: list[list[_Cell]], tops: list[float], heights: list[float]) -> list[_Column]:
    """About as wide as high together, cut where few edges pass."""
    if not rows:
        return []
    width = max(cell.x + cell.width for row in rows for cell in row)
    height = tops[-1] + heights[-1]
    count = max(1, round((_ASPECT * height / max(width + _GUTTER, 1.0)) ** 0.5)) if height > _TALL else 1
    passing = [sum(bool(cell.children) for cell in row) for row in rows]
    borders = [0]
    for number in range(1, count):
        ideal, slack = height * number / count, height / count / 2
        near = [at for at in range(borders[-1] + 1, len(rows)) if abs(tops[at] - ideal) <= slack]
        if near:
            borders.append(min(near, key=lambda at: (passing[at - 1], abs(tops[at] - ideal))))
    found: list[_Column] = []
    right = 0.0
    head = _LANES * _LANE if len(borders) > 1 else 0.0
    for first, end in pairwise((*borders, len(rows))):
        cells = [cell for row in rows[first:end] for cell in row]
        left = min(cell.x for cell in cells)
        right_by = right + _GUTTER - left if found else -left
        right = max(cell.x + cell.width for cell in cells) + right_by
        up_by = tops[first] - (head if found else 0.0)
        found.append(_Column(first, end, right_by, up_by, right, tops[end - 1] + heights[end - 1] - up_by))
    return found


def _wrapped(knots: list[tuple[float, float, int]], columns: list[_Column], value: int) -> Knots:
    """Returns the route of an edge: between columns it goes below the first, up between both, above the second."""
    lane = (value % _LANES + 1) * _LANE
    found: list[tuple[float, float]] = []
    before: _Column | None = None
    for x, y, layer in knots:
        column = columns[layer]
        point = (x + column.right_by, y - column.up_by)
        if before is not None and before is not column:
            below, between, above = before.bottom + lane, before.right + lane, _LANES * _LANE - lane
            found += [(found[-1][0], below), (between, below), (between, above), (point[0], above)]
        found.append(point)
        before = column
    return tuple(found)


def _route(
    cells: list[_Cell],
    link: Link,
    chain: list[_Cell],
    sizes: Sequence[BoxSize],
    layers: tuple[list[float], list[float]],
) -> list[tuple[float, float, int]]:
    """Returns the knots of a link's route, with the layer of each."""
    tops, heights = layers
    source, target = cells[link.source], cells[link.target]
    x, top = source.x + link.source_x, tops[source.layer]
    knots = [(x, top + sizes[link.source].height, source.layer)]
    if sizes[link.source].height < heights[source.layer]:
        knots.append((x, top + heights[source.layer], source.layer))
    for cell in chain[: max(0, target.layer - source.layer - 1)]:
        knots.append((cell.x, tops[cell.layer], cell.layer))
        if heights[cell.layer]:
            knots.append((cell.x, tops[cell.layer] + heights[cell.layer], cell.layer))
    knots.append((target.x + link.target_x, tops[target.layer], target.layer))
    return knots
