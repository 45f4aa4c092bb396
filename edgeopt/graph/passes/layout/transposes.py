"""Removal of transposes: changes the order of dimensions of whole regions of layout-agnostic nodes.

A region is a group of such nodes between transposes. In it, every value y = Transpose(x, perm) is computed as x:

    Relu(Transpose(x, perm))                              =  Transpose(Relu(x), perm)
    Concat(Transpose(x, perm), Transpose(z, perm), a)     =  Transpose(Concat(x, z, perm[a]), perm)
    Transpose(Transpose(x, first), second)                =  Transpose(x, first[second])

A region is changed only if transposes move fewer elements than before, including those that the change needs at
its borders. Sums run over the same numbers in another order, and may round differently.
"""

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.graph.passes.base import (
    Notes,
    Pass,
    PassContext,
    PassResult,
    constant,
    is_op,
    label,
    plural,
    replace_value,
)
from edgeopt.graph.passes.knowledge.agnostic import BROADCAST, reorder_axes, tensors_of
from edgeopt.graph.passes.knowledge.linear import new_weight
from edgeopt.graph.passes.knowledge.names import separate_names

if TYPE_CHECKING:
    import onnx_ir as ir

Order = tuple[int, ...]
_OPSET_OF_SOFTMAX = 13  # before, Softmax covers all axes from its axis on


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    model, notes = context.copy(model), Notes()
    if model.opset_imports.get("", 1) < _OPSET_OF_SOFTMAX:
        return notes.result(model)
    for part in model.graphs():  # functions are inlined before; they can hold no weights
        _merge(part, notes)
        tried: set[ir.Node] = set()
        # Each change moves fewer elements if sizes are known; this bounds the changes if they are not.
        for _ in range(2 * sum(_order(node) is not None for node in part)):
            if not any(_try(part, start, tried, notes) for start in list(part)):
                break
    separate_names(model)
    return notes.result(model)


@dataclass(slots=True)
class Region:
    """A region of nodes that change their order of dimensions, and the values that cross its border."""

    order: Order
    """Permutation of the transpose at which the region starts, from x to y."""
    nodes: "dict[ir.Node, tuple[ir.Value, ...]]"
    """Nodes of the region, each with its inputs whose order matters."""
    part: "ir.Graph"

    def order_of(self, node: "ir.Node | None") -> Order | None:
        """Returns the permutation of a Transpose in the same graph, which can merge with one at the border."""
        return _order(node) if node is not None and node.graph is self.part else None

    def entering(self) -> "list[ir.Value]":
        """Lists the values that the region reads from outside, without constants."""
        found: dict[ir.Value, None] = {}
        for values in self.nodes.values():
            for value in values:
                if value.producer() not in self.nodes and constant(value) is None:
                    found[value] = None
        return list(found)

    def leaving(self) -> "list[ir.Value]":
        """Lists the values of the region that outside nodes read or the graph outputs."""
        return [
            value
            for node in self.nodes
            for value in node.outputs
            if value.name and (value.is_graph_output() or any(use.node not in self.nodes for use in value.uses()))
        ]


def _merge(part: "ir.Graph", notes: Notes) -> None:
    """Merges consecutive transposes; the first is removed if nothing else reads it."""
    import onnx_ir as ir

    for node in list(part):
        order, before = _order(node), _producer(node)
        first = _order(before) if before is not None and before.graph is node.graph else None
        if order is None or first is None or before is None:
            continue
        node.attributes["perm"] = ir.AttrInt64s("perm", [first[axis] for axis in order])
        node.replace_input_with(0, before.inputs[0])
        notes.did("merged transposes", label(before), label(node))
        if not before.outputs[0].uses() and not before.outputs[0].is_graph_output():
            part.remove(before, safe=True)


def _try(part: "ir.Graph", start: "ir.Node", tried: "set[ir.Node]", notes: Notes) -> bool:
    """Changes the region after or around a transpose that has not been tried yet, if that saves transposing."""
    order = _order(start) if start not in tried else None
    if order is None:
        return False
    tried.add(start)
    regions = [region for up in (False, True) if (region := _grow(start, order, up)).nodes]
    best = max(regions, key=_saves, default=None)
    if best is None or _saves(best) <= 0:
        if best is not None and len(_moved_before(best)) > 1:
            notes.refuse("other transposes would move as many values", label(start))
        return False
    before = sum(1 for node in part if is_op(node, "Transpose"))
    names = [label(node) for node in best.nodes]
    _change(part, best)
    _merge(part, Notes())
    _drop_without_effect(part)
    gone = before - sum(1 for node in part if is_op(node, "Transpose"))
    what = f"changed the order of dimensions, which saves {plural(gone, 'transpose')}"
    notes.did(what if gone > 0 else "moved transposes to where tensors are smaller", *names)
    return True


def _grow(start: "ir.Node", order: Order, up: bool) -> Region:
    """Collects the nodes after a transpose that can change their order, and, with `up`, the producers of their
    inputs."""
    import onnx_ir as ir

    assert isinstance(start.graph, ir.Graph)  # noqa: S101 - tells mypy; functions are left alone
    region = Region(order, {}, start.graph)
    waiting = [use.node for use in start.outputs[0].uses()]
    while waiting:
        node = waiting.pop()
        if node in region.nodes or node.graph is not start.graph:
            continue
        values = tensors_of(node)
        if not values or not _fits(values, node, len(order)):
            continue
        region.nodes[node] = values
        waiting += [use.node for output in node.outputs for use in output.uses()]
        if up:
            waiting += [producer for value in values if (producer := value.producer()) is not None]
    return region


def _fits(values: "tuple[ir.Value, ...]", node: "ir.Node", rank: int) -> bool:
    """Whether all tensors have the rank of the order; constants may have fewer, as they can be reshaped."""
    for value in values:
        known = value.shape
        array = constant(value)
        if array is not None and (array.ndim == rank or (array.ndim < rank and is_op(node, *BROADCAST))):
            continue
        if known is None or len(known) != rank:
            return False
    return all(len(output.shape or ()) == rank for output in node.outputs if output.name)


def _moved_before(region: Region) -> "list[ir.Value]":
    """Lists the values that transposes at the border move now; one that leads back into the region counts once."""
    total = dict.fromkeys(v for v in region.entering() if region.order_of(v.producer()) is not None)
    for value in region.leaving():
        total |= {use.node.outputs[0]: None for use in value.uses() if region.order_of(use.node) is not None}
    return list(total)


def _moved_after(region: Region) -> "list[ir.Value]":
    """Lists the values that transposes would move after the change."""
    inverse, total = _inverse(region.order), []
    entering = dict.fromkeys(region.entering())
    for value in entering:
        first = region.order_of(value.producer())
        if first is None or _leads_back(value, region) or tuple(first[axis] for axis in inverse) != _same(inverse):
            total.append(value)
        if first is not None and (
            value.is_graph_output() or any(u.node not in region.nodes for u in value.uses())
        ):
            total.append(value)
    for value in region.leaving():
        outside = [
            use.node
            for use in value.uses()
            if use.node not in region.nodes and not any(out in entering for out in use.node.outputs)
        ]
        orders = [found for node in outside if (found := region.order_of(node)) is not None]
        both = [tuple(region.order[axis] for axis in second) for second in orders]
        total += [value for order in both if order != _same(order)]
        if value.is_graph_output() or len(orders) < len(outside):
            total.append(value)
    return total


def _leads_back(value: "ir.Value", region: Region) -> bool:
    """Whether an entering value is a transposed result of the region, which stays transposed in any order."""
    transpose = value.producer()
    return transpose is not None and _producer(transpose) in region.nodes


def _saves(region: Region) -> int:
    """Returns how many fewer elements are moved, or how many fewer tensors if a size is unknown."""
    before, after = _moved_before(region), _moved_after(region)
    sizes = {id(value): size(value) for value in (*before, *after)}
    known = all(found is not None for found in sizes.values())

    def moved(values: "list[ir.Value]") -> int:
        return sum((sizes[id(value)] or 0) if known else 1 for value in values)

    return moved(before) - moved(after)


def _change(part: "ir.Graph", region: Region) -> None:
    """Transposes entering values back, adapts each node to the order, and transposes leaving values."""
    inverse = _inverse(region.order)
    transposed = {value: _transpose(part, value, inverse) for value in region.entering()}
    leaving = region.leaving()
    for node, values in region.nodes.items():
        stem = node.name or node.outputs[0].name or node.op_type
        for place, value in enumerate(node.inputs):
            if value is None or not any(value is each for each in values):
                continue
            if value in transposed:
                node.replace_input_with(place, transposed[value])
            elif (array := constant(value)) is not None and array.size != 1:
                full = array.reshape((1,) * (len(inverse) - array.ndim) + array.shape).transpose(inverse)
                node.replace_input_with(place, new_weight(part, f"{stem}_turned", full))
        reorder_axes(node, region.order, part, stem)
        for output in node.outputs:
            if output.shape is not None:
                output.shape = _shape([output.shape[axis] for axis in inverse])
    for value in leaving:
        _turn(part, value, region)


def _turn(part: "ir.Graph", value: "ir.Value", region: Region) -> None:
    """Inserts a Transpose after a result of a region, so that outside readers get the original order."""
    import onnx_ir as ir

    node = ir.node("Transpose", [value], {"perm": list(region.order)})
    node.name = f"{value.name}_order"
    out = node.outputs[0]
    out.name, out.type = f"{value.name}_ordered", value.type
    out.shape = _shape([value.shape[axis] for axis in region.order]) if value.shape is not None else None
    producer = value.producer()
    assert producer is not None  # noqa: S101 - a region's results have one
    part.insert_after(producer, node)
    for use in list(value.uses()):
        if use.node not in region.nodes and use.node is not node:
            use.node.replace_input_with(use.idx, out)
    if value.is_graph_output():
        name = value.name
        for place, output in enumerate(part.outputs):
            if output is value:
                part.outputs[place] = out
        value.name, out.name = f"{name}_before_order", name


def _transpose(part: "ir.Graph", value: "ir.Value", order: Order) -> "ir.Value":
    import onnx_ir as ir

    node = ir.node("Transpose", [value], {"perm": list(order)})
    node.name = f"{value.name}_turned_back"
    out = node.outputs[0]
    out.name, out.type = f"{value.name}_turned_back", value.type
    out.shape = _shape([value.shape[axis] for axis in order]) if value.shape is not None else None
    producer = value.producer()
    if producer is not None and producer.graph is part:
        part.insert_after(producer, node)
    elif len(part):
        part.insert_before(part[0], node)
    return out


def _drop_without_effect(part: "ir.Graph") -> None:
    for node in list(part):
        order = _order(node)
        if order is None:
            continue
        result = node.outputs[0]
        if (not result.uses() and not result.is_graph_output()) or (
            order == _same(order) and node.inputs[0] is not None and replace_value(result, node.inputs[0]) is None
        ):
            part.remove(node, safe=True)


def _order(node: "ir.Node | None") -> Order | None:
    """Returns the permutation of a Transpose; None for other nodes."""
    if node is None or not is_op(node, "Transpose"):
        return None
    if "perm" in node.attributes:
        return None if node.attributes["perm"].is_ref() else tuple(node.attributes["perm"].as_ints())
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    return None if shape is None else tuple(reversed(range(len(shape))))


def _producer(node: "ir.Node") -> "ir.Node | None":
    return node.inputs[0].producer() if node.inputs and node.inputs[0] is not None else None


def _inverse(order: Order) -> Order:
    return tuple(int(axis) for axis in np.argsort(order))


def _same(order: Order) -> Order:
    return tuple(range(len(order)))


def _shape(dims: "list[int | ir.SymbolicDim]") -> "ir.Shape":
    import onnx_ir as ir

    return ir.Shape(dims)


def size(value: "ir.Value") -> int | None:
    """Returns the number of elements of a tensor; None if it is unknown."""
    dims = list(value.shape) if value.shape is not None else [None]
    return prod(dim for dim in dims if isinstance(dim, int)) if all(isinstance(d, int) for d in dims) else None


PASS = Pass("transposes", "the order of dimensions changes if that saves transposes", apply, tolerance_db=100.0)
