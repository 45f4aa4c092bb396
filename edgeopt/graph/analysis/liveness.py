"""How much memory activations take at once, when nodes run in the order of the graph.

Inputs are held by the caller for the whole run, outputs from where they are made to its end; what lies between,
from the node that makes it to the last that reads it. What only has another shape lies where its source lies.
Weights do not count. A subgraph's peak is added at the node that holds it, of several the largest; what it takes
from outside is alive there anyway. No element-wise result takes the place of its input, as some runtimes let it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeopt.graph.analysis.cost.call import ALIASES
from edgeopt.graph.nodes import subgraphs

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(slots=True)
class _Room:
    """The bytes of a tensor, and of those that are it under another name."""

    size: int
    begin: int
    end: int


def peak_bytes(graph: "ir.Graph", sizes: "Mapping[ir.Value, int]") -> "tuple[int, ir.Node | None]":
    """The most bytes at one node, and that node; a value without a size counts nothing."""
    nodes = tuple(graph)
    last = len(nodes)
    rooms: dict[ir.Value, _Room] = {
        value: _Room(sizes.get(value, 0), 0, last) for value in graph.inputs if not value.is_initializer()
    }
    for place, node in enumerate(nodes):
        for value in read_by(node):
            if value in rooms:
                rooms[value].end = max(rooms[value].end, place)
        alias = node.inputs[0] if node.inputs and node.op_type in ALIASES else None
        for value in node.outputs:
            if alias is not None and alias in rooms:
                rooms[value] = rooms[alias]
            elif alias is None and node.op_type != "Constant":
                # Another name of a weight is a weight, and of a value from outside it lies there.
                rooms[value] = _Room(sizes.get(value, 0), place, place)
    for value in graph.outputs:
        if value in rooms:
            rooms[value].end = last
    held = [max((peak_bytes(inner, sizes)[0] for _, inner in subgraphs(node)), default=0) for node in nodes]
    changes = [0] * (last + 2)
    for room in {id(room): room for room in rooms.values()}.values():
        changes[room.begin] += room.size
        changes[room.end + 1] -= room.size
    most, at, now = sum(room.size for room in rooms.values() if not nodes), None, 0
    for place, node in enumerate(nodes):
        now += changes[place]
        if at is None or now + held[place] > most:
            most, at = now + held[place], node
    return most, at


def read_by(node: "ir.Node") -> "list[ir.Value]":
    """What a node reads, its subgraphs too."""
    read = [value for value in node.inputs if value is not None]
    for _, inner in subgraphs(node):
        for each in inner:
            read += read_by(each)
        read.extend(inner.outputs)
    return read
