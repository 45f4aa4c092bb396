"""Which layer each node of a model works for, so that the time of every kernel belongs to somebody.

A layer's kernel seldom stands alone: what follows it (an activation, a sum, a pooling) is fused with it in one
precision and runs by itself in another. So a layer owns the nodes that follow it up to the next layer, and what
a form has put around it; its time is theirs all together, whatever the runtime made of them.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from edgeopt.graph.analysis import NodeRow, OpTimeRow
from edgeopt.quant.records import Layer

CONVERSIONS = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})
Shares = Mapping[str, float]
"""Layer, its share; empty: nobody's."""


@dataclass(frozen=True, slots=True)
class Territory:
    """The owners of each node of one model, by the node's label."""

    owners: Mapping[str, Shares]
    layers: Mapping[str, Layer]
    """By the label of their nodes."""

    def of(self, row: OpTimeRow) -> Shares:
        """Whose time a kernel takes: that of the layers in it, else that of those for whom its nodes work."""
        inside = {self.layers[label].name: self.layers[label] for label in row.members if label in self.layers}
        if inside:
            return _by_work(inside.values())
        found: dict[str, float] = defaultdict(float)
        owned = [label for label in row.members if label in self.owners]
        for label in owned:
            for layer, share in self.owners[label].items():
                found[layer] += share / len(owned)
        return found


def label_of(row: NodeRow) -> str:
    """As kernels name their nodes, and as layers do."""
    return row.name or next((tensor.name for tensor in row.outputs if tensor.name), row.operator)


def territory_of(nodes: Sequence[NodeRow], layers: Sequence[Layer], known: Territory | None = None) -> Territory:
    """`known` is that of the float model: its nodes keep their owners in what was written from it."""
    by_node = {label: layer for layer in layers for label in layer.nodes}
    place = {layer.name: number for number, layer in enumerate(layers)}
    makers = {tensor.name: row for row in nodes for tensor in row.outputs if tensor.name}
    readers: dict[str, list[NodeRow]] = defaultdict(list)
    for row in nodes:
        for tensor in row.inputs:
            if tensor.name:
                readers[tensor.name].append(row)
    owners: dict[str, Shares] = {}
    for row in nodes:
        label = label_of(row)
        if label in by_node:
            owners[label] = {by_node[label].name: 1.0}
        elif known is not None and label in known.owners:
            owners[label] = known.owners[label]
        elif known is not None and (served := _served(row, readers, by_node, known)):
            owners[label] = _by_work(served)
        else:
            before = [owners.get(label_of(m), {}) for t in row.inputs if (m := makers.get(t.name)) is not None]
            # The latest of them: what joins two branches waits for it.
            latest = max((max(o, key=lambda name: place[name]) for o in before if o), key=place.get, default=None)  # type: ignore[arg-type]
            owners[label] = {latest: 1.0} if latest is not None else {}
    return Territory(owners, by_node)


def _served(
    row: NodeRow, readers: Mapping[str, list[NodeRow]], by_node: Mapping[str, Layer], known: Territory
) -> list[Layer]:
    """The layers that read what a new node makes, with nothing but new nodes between."""
    found: dict[str, Layer] = {}
    waiting, seen = [row], {id(row)}
    while waiting:
        for tensor in waiting.pop().outputs:
            for reader in readers[tensor.name] if tensor.name else ():
                label = label_of(reader)
                if label in by_node:
                    found[by_node[label].name] = by_node[label]
                elif label not in known.owners and id(reader) not in seen:
                    seen.add(id(reader))
                    waiting.append(reader)
    return list(found.values())


def _by_work(layers: Iterable[Layer]) -> Shares:
    """Several in one kernel share its time as they share the work."""
    several = list(layers)
    total = sum(layer.multiply_adds for layer in several)
    if not total:
        return {layer.name: 1 / len(several) for layer in several}
    return {layer.name: layer.multiply_adds / total for layer in several}
