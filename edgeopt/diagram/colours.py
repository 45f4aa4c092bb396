"""Colourings of a diagram: their subject, and the colour of each node."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from edgeopt import units
from edgeopt.diagram.merging import label_of
from edgeopt.diagram.outline import Leaf, OutlineGroup, is_constant, leaves
from edgeopt.graph.analysis.records import NodeRow, OpTimes, name_of
from edgeopt.graph.diff import GraphDiff

_SCALE = ("#fff5eb", "#fdd0a2", "#fd8d3c", "#e6550d", "#a63603")
"""Colours from little to much; dark text is readable on all but the last two."""
CATEGORIES = {
    "matrix product": "#1f3f8f",
    "convolution": "#4e9bd9",
    "attention": "#6f4fc4",
    "recurrent": "#2a7f9e",
    "activation": "#e15759",
    "normalization": "#b07aa1",
    "pooling": "#59a14f",
    "element-wise": "#f28e2b",
    "reduction": "#76b7b2",
    "shape": "#9c9c9c",
    "data movement": "#9c755f",
    "quantization": "#edc948",
    "control flow": "#ff9da7",
    "image": "#b3c232",
}
_OTHER = "#bab0ac"
_DTYPES = {
    "float32": "#4e79a7",
    "float64": "#2f4b6e",
    "float16": "#76b7b2",
    "bfloat16": "#59a14f",
    "int8": "#f28e2b",
    "uint8": "#edc948",
    "int32": "#b07aa1",
    "int64": "#9c755f",
    "bool": "#ff9da7",
}
UNKNOWN = "#dddddd"
MEASURED = "ms:"
"""Begins the keys of colourings by measured time; the backend follows."""
_FUSED = "fused"


@dataclass(frozen=True, slots=True)
class Fill:
    colour: str
    text: str
    """The figure or word behind the colour; "" where nothing is known."""
    solid: bool = False
    """Fills the whole box, where others mark its left side."""


@dataclass(frozen=True, slots=True)
class Colouring:
    key: str
    title: str
    fills: tuple[Fill | None, ...]
    """Fill by position of the node; None if nothing is known about the node."""
    amounts: tuple[float | None, ...] | None = None
    """Amounts that the colours stand for, if any; a folded group has the sum."""
    importance: tuple[float, ...] | None = None
    """Weight of each node in the choice of a folded group's word, if colours stand for words; None: all alike."""
    unit: str = ""
    maximum: float = 0.0
    """The amount of the strongest colour."""
    legend: tuple[tuple[str, str], ...] = ()
    """Colour and meaning."""

    def of(self, item: Leaf | OutlineGroup) -> Fill | None:
        if isinstance(item, Leaf):
            return self.fills[item.position]
        if self.amounts is None:
            return self._most_important(item)
        known = [self.amounts[position] for position in leaves(item)]
        total = sum(amount for amount in known if amount is not None)
        if all(amount is None for amount in known):
            return None
        return Fill(_shade(total, self.maximum), _figure(total, self.unit), solid=True)

    def scaled_to(self, items: "Iterable[Leaf | OutlineGroup]", at_least: float = 0.0) -> "Colouring":
        """The strongest colour is that of the largest amount among these: sums of groups are above any node.

        `at_least` is that of a drawing beside this one.
        """
        if self.amounts is None:
            return self
        sums = [sum(self.amounts[position] or 0.0 for position in leaves(item)) for item in items]
        zero = _FUSED if self.key.startswith(MEASURED) else ""
        return _by_amount(self.key, self.title, list(self.amounts), self.unit, zero, max(at_least, *sums, 0.0))

    def _most_important(self, group: OutlineGroup) -> Fill | None:
        """The word that counts most in a group, and whether it is the only one."""
        sums: dict[str, list[float]] = {}
        for position in leaves(group):
            if (fill := self.fills[position]) is not None:
                found = sums.setdefault(fill.colour, [0.0, 0.0])
                found[0] += 1.0 if self.importance is None else self.importance[position]
                found[1] += 1
        if not sums:
            return None
        colour = max(sums, key=lambda each: sums[each])
        words = dict(self.legend)
        return Fill(colour, f"{'mostly ' * (len(sums) > 1)}{words.get(colour, '')}".strip(), solid=True)


def colourings(nodes: Sequence[NodeRow], times: Sequence[OpTimes] = ()) -> tuple[Colouring, ...]:
    """Nodes with known figures, by category first."""
    found = [
        _by_word(
            "category",
            "Operator category",
            [_category(node) for node in nodes],
            CATEGORIES,
            tuple(float((node.cost.operations or 0) * node.runs) for node in nodes),
        ),
        *(
            _by_amount(
                f"{MEASURED}{each.backend}",
                f"Measured time, {each.backend}",
                measured_ms(nodes, each),
                "ms",
                _FUSED,
            )
            for each in times
            if each.rows
        ),
        _by_amount("least", "Least time on this device", [_minimum(node) for node in nodes], "ms"),
        _by_amount("bytes", "Bytes moved", [_bytes(node) for node in nodes], "bytes"),
        _by_word("precision", "Precision", [_precision(node) for node in nodes], _DTYPES),
    ]
    return tuple(each for each in found if any(each.fills))


def measured_ms(nodes: Sequence[NodeRow], times: OpTimes) -> list[float | None]:
    """The time of a kernel of several nodes counts for its first node, so that sums are right."""
    spent: dict[str, float] = {}
    members: set[str] = set()
    for row in times.rows:
        members.update(row.members)
        if row.members:
            spent[row.members[0]] = spent.get(row.members[0], 0.0) + row.time_ms
    names = [name_of(node) for node in nodes]
    return [spent.get(name, 0.0 if name in members else None) for name in names]


def _minimum(node: NodeRow) -> float | None:
    return None if node.least_ms is None else node.least_ms * node.runs


def _bytes(node: NodeRow) -> float | None:
    if node.cost.read_bytes is None or node.cost.written_bytes is None:
        return None
    return float((node.cost.read_bytes + node.cost.written_bytes) * node.runs)


def _category(node: NodeRow) -> str | None:
    return None if is_constant(node) else node.category or None


def _precision(node: NodeRow) -> str | None:
    if is_constant(node):
        return None
    return next((tensor.dtype for tensor in node.outputs if tensor.dtype), None)


def _by_word(
    key: str,
    title: str,
    words: list[str | None],
    table: Mapping[str, str],
    importance: tuple[float, ...] | None = None,
) -> Colouring:
    fills = tuple(None if word is None else Fill(table.get(word, _OTHER), word) for word in words)
    present = dict.fromkeys(word for word in words if word is not None)
    legend = tuple((table.get(word, _OTHER), word) for word in present)
    return Colouring(key, title, fills, importance=importance, legend=legend)


def _by_amount(
    key: str, title: str, amounts: list[float | None], unit: str, zero: str = "", maximum: float = 0.0
) -> Colouring:
    """`zero` is the word for nothing, where that is not a figure; `maximum` that of the strongest colour."""
    maximum = maximum or max((amount for amount in amounts if amount is not None), default=0.0)
    fills = tuple(
        None
        if amount is None
        else Fill(_shade(amount, maximum), (not amount and zero) or _figure(amount, unit), solid=True)
        for amount in amounts
    )
    steps = [0.0, 0.25, 0.5, 1.0] if maximum else []
    legend = tuple((_shade(step * maximum, maximum), _figure(step * maximum, unit)) for step in steps)
    return Colouring(key, title, fills, tuple(amounts), unit=unit, maximum=maximum, legend=legend)


def _shade(amount: float, maximum: float) -> str:
    """Returns the colour of an amount by the square root of its share, so that small amounts differ from 0."""
    if maximum <= 0 or amount <= 0:
        return _SCALE[0]
    place = min(1.0, math.sqrt(amount / maximum)) * (len(_SCALE) - 1)
    low = min(int(place), len(_SCALE) - 2)
    return _mixed(_SCALE[low], _SCALE[low + 1], place - low)


def _mixed(first: str, second: str, share: float) -> str:
    parts = [(int(first[i : i + 2], 16), int(second[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in parts)


def _figure(amount: float, unit: str) -> str:
    if unit == "bytes":
        return units.size(round(amount))
    if unit == "ms" and amount and amount < 1:
        return f"{amount * 1000:.3g} µs"
    return f"{amount:.3g} {unit}"


def is_dark(colour: str) -> bool:
    """Whether white text is read better on it."""
    return sum(int(colour[i : i + 2], 16) for i in (1, 3, 5)) < 420


Side = Literal["first", "second"]
KEPT, CHANGED, FUSED, REMOVED, NEW = "kept", "changed", "fused", "removed", "new"
COLOURS = {KEPT: "#d9dde3", CHANGED: "#edc948", FUSED: "#4e79a7", REMOVED: "#e15759", NEW: "#59a14f"}


def change_colouring(nodes: Sequence[NodeRow], diff: GraphDiff, side: Side) -> Colouring:
    """`side` says which of the two models the nodes are of."""
    words = _of_first(diff) if side == "first" else _of_second(diff)
    fills = tuple(
        None if is_constant(node) or node.inside or not node.operator else _fill(node, words) for node in nodes
    )
    present = dict.fromkeys(_status(fill.text) for fill in fills if fill is not None)
    # One change in a folded group is what people look for.
    importance = tuple(float(fill is not None and fill.solid) for fill in fills)
    return Colouring(
        "change", "Change", fills, importance=importance, legend=tuple((COLOURS[word], word) for word in present)
    )


def _fill(node: NodeRow, words: dict[str, str]) -> Fill:
    text = words.get(label_of(node), KEPT)
    return Fill(COLOURS[_status(text)], text, solid=text != KEPT)


def _status(text: str) -> str:
    return text.partition(":")[0].partition(" ")[0]


def _of_first(diff: GraphDiff) -> dict[str, str]:
    words: dict[str, str] = {}
    for change in diff.changes:
        if change.status == "changed":
            words[change.node] = f"{CHANGED}: {change.what}" if change.what else CHANGED
        elif change.status == "fused into":
            words[change.node] = f"{FUSED} into {change.other}"
        elif change.status == "gone":
            words[change.node] = f"{REMOVED}: {change.what}" if change.what else REMOVED
    return words


def _of_second(diff: GraphDiff) -> dict[str, str]:
    words: dict[str, str] = {}
    parts: dict[str, list[str]] = {}
    for change in diff.changes:
        if change.status == "changed":
            words[change.other] = f"{CHANGED}: {change.what}" if change.what else CHANGED
        elif change.status == "new":
            words[change.node] = NEW
        elif change.status == "fused into" and change.other:
            parts.setdefault(change.other, []).append(change.node)
    for host, taken in parts.items():
        words[host] = f"{FUSED}: took in {', '.join(taken)}"
    return words
