"""Nodes in an order in which less memory is taken at once: what is no longer needed is used up first.

Two orders are tried, and the better one is taken where it lowers the peak of the activations by a twentieth:

- greedy: the ready node after which the least is held;
- depth first: inputs of a node in the order of the memory that making them takes above what it leaves.

Nothing else changes, so the results stay the same to the last bit. A runtime with an order of its own may undo it.
"""

from collections.abc import Mapping, Sequence
from math import ceil, prod
from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.graph.analysis.liveness import peak_bytes, read_by
from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, is_random, label, parts

if TYPE_CHECKING:
    import onnx_ir as ir

_WORTH = 0.95
_FEWEST_NODES = 3


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    import onnx_ir as ir

    model, notes = context.copy(model), Notes()
    for part in parts(model):
        if not isinstance(part, ir.Graph) or len(part) < _FEWEST_NODES:
            continue
        drawn = [label(node) for node in part if is_random(node)]
        if len(drawn) > 1:
            notes.refuse("they draw random numbers from the same source in sequence", *drawn)
            continue
        sizes = _sizes(part)
        before, _ = peak_bytes(part, sizes)
        found = list(part)
        for order in (_greedy(found, sizes), _depth_first(found, sizes)):
            _arrange(part, order)
            after, _ = peak_bytes(part, sizes)
            if after < before * _WORTH:
                took = f"{units.size(after)} instead of {units.size(before)}"
                notes.did(
                    f"ordered the nodes so that activations take {took} at their peak",
                    *(label(node) for node, old in zip(order, found, strict=True) if node is not old),
                )
                found, before = order, after
            else:
                _arrange(part, found)
    return notes.result(model)


def _arrange(part: "ir.Graph", order: "Sequence[ir.Node]") -> None:
    nodes = list(order)
    part.remove(nodes)
    part.extend(nodes)


def _sizes(part: "ir.Graph") -> "dict[ir.Value, int]":
    """The bytes of each tensor; open dimensions count as one, unknown ranks as nothing."""
    values = [value for node in part for value in node.outputs] + list(part.inputs)
    return {
        value: ceil(prod(dim for dim in value.shape if isinstance(dim, int)) * value.dtype.itemsize)
        for value in values
        if value.shape is not None and value.dtype is not None and not value.dtype.is_string()
    }


def _links(nodes: "Sequence[ir.Node]") -> "dict[ir.Node, list[ir.Value]]":
    """What each node reads of the results of others, its subgraphs too, each once."""
    own = set(nodes)
    return {
        node: [value for value in dict.fromkeys(read_by(node)) if (maker := value.producer()) and maker in own]
        for node in nodes
    }


def _greedy(nodes: "Sequence[ir.Node]", sizes: "Mapping[ir.Value, int]") -> "list[ir.Node]":
    reads = _links(nodes)
    place = {node: index for index, node in enumerate(nodes)}
    left: dict[ir.Value, int] = {}
    readers: dict[ir.Node, list[ir.Node]] = {node: [] for node in nodes}
    missing = {node: len({value.producer() for value in values}) for node, values in reads.items()}
    for node, values in reads.items():
        for value in values:
            left[value] = left.get(value, 0) + 1
        for maker in {value.producer() for value in values}:
            if maker is not None:
                readers[maker].append(node)
    kept = {value for node in nodes for value in node.outputs if value.is_graph_output()}

    def growth(node: "ir.Node") -> tuple[int, int]:
        freed = sum(sizes.get(value, 0) for value in reads[node] if left[value] == 1 and value not in kept)
        return sum(sizes.get(value, 0) for value in node.outputs) - freed, place[node]

    ready = [node for node in nodes if not missing[node]]
    order: list[ir.Node] = []
    while ready:
        node = min(ready, key=growth)
        ready.remove(node)
        order.append(node)
        for value in reads[node]:
            left[value] -= 1
        for reader in readers[node]:
            missing[reader] -= 1
            if not missing[reader]:
                ready.append(reader)
    return order


def _depth_first(nodes: "Sequence[ir.Node]", sizes: "Mapping[ir.Value, int]") -> "list[ir.Node]":
    reads = _links(nodes)
    makers = {node: list(dict.fromkeys(value.producer() for value in values)) for node, values in reads.items()}
    peak: dict[ir.Node, int] = {}
    own = {node: sum(sizes.get(value, 0) for value in node.outputs) for node in nodes}
    for node in nodes:  # makers come first
        held, most = 0, own[node]
        for maker in sorted(makers[node], key=lambda m: own[m] - peak[m] if m else 0):
            if maker is not None:
                most = max(most, held + peak[maker])
                held += own[maker]
        peak[node] = max(most, held + own[node])
    order: dict[ir.Node, None] = {}
    for root in [node for node in nodes if not any(value.uses() for value in node.outputs)] + list(nodes):
        waiting = [(root, False)]
        while waiting:
            node, open_ = waiting.pop()
            if node in order:
                continue
            if open_:
                order[node] = None
                continue
            waiting.append((node, True))
            # The last one pushed runs first.
            first = sorted((m for m in makers[node] if m is not None), key=lambda m: peak[m] - own[m])
            waiting += [(maker, False) for maker in first if maker not in order]
    return list(order)


PASS = Pass(
    "memory-order", "nodes are ordered so that the activations' peak memory is lower", apply, on_request=True
)
