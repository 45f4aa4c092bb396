"""What became of each node between two models, as colours of either diagram."""

from collections.abc import Sequence
from typing import Literal

from edgeopt.diagram.colours import Colouring, Fill
from edgeopt.diagram.outline import is_constant
from edgeopt.graph.analysis.records import NodeRow
from edgeopt.graph.diff import GraphDiff

Side = Literal["first", "second"]
KEPT, CHANGED, FUSED, REMOVED, NEW = "kept", "changed", "fused", "removed", "new"
COLOURS = {KEPT: "#d9dde3", CHANGED: "#edc948", FUSED: "#4e79a7", REMOVED: "#e15759", NEW: "#59a14f"}


def change_colouring(nodes: Sequence[NodeRow], diff: GraphDiff, side: Side) -> Colouring:
    """`side` says which of the two models the nodes are of."""
    words = _of_first(diff) if side == "first" else _of_second(diff)
    fills = tuple(None if is_constant(node) or node.inside else _fill(node, words) for node in nodes)
    present = dict.fromkeys(_status(fill.text) for fill in fills if fill is not None)
    return Colouring("change", "Change", fills, legend=tuple((COLOURS[word], word) for word in present))


def _fill(node: NodeRow, words: dict[str, str]) -> Fill:
    text = words.get(_label(node), KEPT)
    return Fill(COLOURS[_status(text)], text, solid=text != KEPT)


def _status(text: str) -> str:
    return text.partition(":")[0].partition(" ")[0]


def _label(node: NodeRow) -> str:
    return f"{node.operator} '{node.name or (node.outputs[0].name if node.outputs else '')}'"


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
