"""The nodes of two models in one order, in which nodes that belong together are one entry."""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from edgeopt.diagram.outline import inside_of, is_constant
from edgeopt.graph.analysis.records import NodeRow, name_of


@dataclass(frozen=True, slots=True)
class MergedNode:
    """A node of the first model, of the second, or one of each that belong together."""

    row: NodeRow
    """Row of the first model, or else of the second."""
    first: NodeRow | None
    second: NodeRow | None
    inside: str
    """Path of the nodes that hold this one in the merged graph; empty at the top."""


def merged(
    first: Sequence[NodeRow], second: Sequence[NodeRow], partners: Iterable[tuple[str, str]]
) -> list[MergedNode]:
    """Each node after all that it depends on in either model. `partners` has labels of nodes of the main graphs.

    Where the models have partners in opposite orders, one of these pairs becomes two entries.
    """
    sides = _with_bodies(first), _with_bodies(second)
    waiting = [_by_label(side) for side in sides]
    pairs: dict[int, int] = {}
    for a, b in partners:
        if waiting[0][a] and waiting[1][b]:
            pairs[waiting[0][a].pop(0)] = waiting[1][b].pop(0)
    return list(_merged(*sides, pairs, ""))


def label_of(node: NodeRow) -> str:
    """Returns the same label as `edgeopt.graph.nodes.label`."""
    return f"{node.operator} '{node.name or (node.outputs[0].name if node.outputs else '')}'"


_Bodies = dict[str, list[NodeRow]]
"""Nodes by the branch, or the body, that they are in."""


@dataclass(frozen=True, slots=True)
class _NodeWithBodies:
    """A node with the nodes of its branches or its body."""

    row: NodeRow
    inner: tuple[NodeRow, ...]

    def bodies(self) -> "_Bodies":
        prefix = inside_of(self.row)
        runs = groupby(self.inner, key=lambda node: node.inside[len(prefix) :].partition("/")[0])
        return {branch: list(run) for branch, run in runs}


def _with_bodies(rows: Sequence[NodeRow]) -> list[_NodeWithBodies]:
    found: list[_NodeWithBodies] = []
    at = 0
    while at < len(rows):
        prefix, end = inside_of(rows[at]), at + 1
        while end < len(rows) and rows[end].inside.startswith(prefix) and rows[end].inside != rows[at].inside:
            end += 1
        if not is_constant(rows[at]):
            found.append(_NodeWithBodies(rows[at], tuple(rows[at + 1 : end])))
        at = end
    return found


def _by_label(side: Sequence[_NodeWithBodies]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for at, node in enumerate(side):
        found[label_of(node.row)].append(at)
    return found


def _merged(
    first: Sequence[_NodeWithBodies], second: Sequence[_NodeWithBodies], pairs: Mapping[int, int], inside: str
) -> Iterator[MergedNode]:
    for a, b in _Order((first, second), pairs).entries():
        nodes = [first[a]] if a is not None else []
        nodes += [second[b]] if b is not None else []
        row = nodes[0].row
        yield MergedNode(
            row, first[a].row if a is not None else None, second[b].row if b is not None else None, inside
        )
        bodies = (first[a].bodies() if a is not None else {}, second[b].bodies() if b is not None else {})
        yield from _inner(*bodies, f"{inside}{'/' if inside else ''}{row.name or row.operator}/")


def _inner(first: _Bodies, second: _Bodies, prefix: str) -> Iterator[MergedNode]:
    for branch in dict.fromkeys((*first, *second)):
        sides = _with_bodies(first.get(branch, ())), _with_bodies(second.get(branch, ()))
        named = {(node.row.operator, name_of(node.row)): at for at, node in enumerate(sides[1])}
        keys = [(node.row.operator, name_of(node.row)) for node in sides[0]]
        pairs = {at: named.pop(key) for at, key in enumerate(keys) if key in named}
        yield from _merged(*sides, pairs, f"{prefix}{branch}")


@dataclass(slots=True)
class _Item:
    members: list[int | None]
    """Node of each side; None if the side has none."""
    key: tuple[float, int, int]
    done: bool = False


@dataclass(slots=True)
class _Order:
    sides: tuple[Sequence[_NodeWithBodies], Sequence[_NodeWithBodies]]
    pairs: Mapping[int, int]
    _items: list[_Item] = field(default_factory=list)
    _of: list[list[int]] = field(default_factory=lambda: [[], []])
    """The item of each node."""
    _pending: list[list[int]] = field(default_factory=lambda: [[], []])
    """Number of nodes that each node reads and that are not placed yet."""
    _readers: list[list[list[int]]] = field(default_factory=lambda: [[], []])
    _ready: list[tuple[tuple[float, int, int], int]] = field(default_factory=list)

    def entries(self) -> Iterator[tuple[int | None, int | None]]:
        self._begin()
        left = len(self._items)
        while left:
            if not self._ready:
                left += self._split()
            _, number = heapq.heappop(self._ready)
            item = self._items[number]
            if item.done:
                continue
            item.done = True
            left -= 1
            yield item.members[0], item.members[1]
            for side, at in enumerate(item.members):
                for reader in self._readers[side][at] if at is not None else ():
                    self._pending[side][reader] -= 1
                    self._offer(self._of[side][reader])

    def _begin(self) -> None:
        first, second = self.sides
        for at in range(len(first)):
            self._of[0].append(len(self._items))
            self._items.append(_Item([at, self.pairs.get(at)], (float(at), 0, at)))
        taken = {b: a for a, b in self.pairs.items()}
        anchor = -1.0
        for at in range(len(second)):
            if at in taken:
                # What is new after a node lies behind its partner.
                anchor = float(taken[at])
                self._of[1].append(self._of[0][taken[at]])
            else:
                self._of[1].append(len(self._items))
                self._items.append(_Item([None, at], (anchor, 1, at)))
        for side, nodes in enumerate(self.sides):
            made = {
                tensor.name: at for at, entry in enumerate(nodes) for tensor in entry.row.outputs if tensor.name
            }
            self._readers[side] = [[] for _ in nodes]
            for at, entry in enumerate(nodes):
                read = {made.get(tensor.name, at) for node in (entry.row, *entry.inner) for tensor in node.inputs}
                # Of a graph whose nodes are sorted, only what came before counts.
                before = [maker for maker in read if maker < at]
                self._pending[side].append(len(before))
                for maker in before:
                    self._readers[side][maker].append(at)
        for number in range(len(self._items)):
            self._offer(number)

    def _offer(self, number: int) -> None:
        item = self._items[number]
        if not item.done and all(at is None or not self._pending[s][at] for s, at in enumerate(item.members)):
            heapq.heappush(self._ready, (item.key, number))

    def _split(self) -> int:
        """Splits the next pair, because no node is ready; returns the number of added items."""
        number = next(number for number in self._of[0] if not self._items[number].done)
        item = self._items[number]
        second = self.pairs[item.key[2]]
        item.members[1] = None
        self._of[1][second] = len(self._items)
        self._items.append(_Item([None, second], (item.key[0], 1, second)))
        self._offer(number)
        self._offer(len(self._items) - 1)
        return 1
