"""Computes once what a graph computes twice: nodes with the same operator, inputs and attributes."""

from collections.abc import Hashable
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import (
    Notes,
    Pass,
    PassContext,
    PassResult,
    inner_graphs,
    is_random,
    label,
    plural,
    replace_value,
)

if TYPE_CHECKING:
    import onnx_ir as ir

SHORT_BYTES = 1 << 14
SMALL_ELEMENTS = 64  # comparing more in attributes costs more than it finds


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Merges equal nodes of a graph, and those of subgraphs with what is computed outside before them."""
    model, notes, merged = context.copy(model), Notes(), []
    for root in (model.graph, *model.functions.values()):
        merged += _merge(root, {}, notes)
    if merged:
        notes.did(f"merged {plural(len(merged), 'node')} with an equal one", *merged)
    return notes.result(model)


def _merge(part: "ir.Graph | ir.Function", outside: "dict[Hashable, ir.Node]", notes: Notes) -> list[str]:
    first, merged = dict(outside), []
    for node in list(part):
        if _merged(node, first, notes):
            merged.append(label(node))
            part.remove(node, safe=True)
            continue
        for inner in inner_graphs(node):
            merged += _merge(inner, first, notes)
    return merged


def _merged(node: "ir.Node", first: "dict[Hashable, ir.Node]", notes: Notes) -> bool:
    """Lets those who read a node read its twin, where there is one."""
    key = _key(node)
    twin = node if key is None else first.setdefault(key, node)
    if twin is node:
        return False
    pairs = list(zip(node.outputs, twin.outputs, strict=True))
    if is_random(node):
        notes.refuse("it draws random numbers", label(node))
    elif twin.graph is not node.graph and any(old.is_graph_output() for old in node.outputs):
        notes.refuse("a branch returns its result, so it must stay there", label(node))
    elif any(old.is_graph_output() and new.is_graph_output() for old, new in pairs):
        notes.refuse("both results are outputs of the graph", label(node))
    else:
        for old, new in pairs:
            replace_value(old, new)
        return True
    return False


def _key(node: "ir.Node") -> Hashable | None:
    import onnx_ir as ir

    attributes = []
    for name, attribute in node.attributes.items():
        if attribute.is_ref() or attribute.type in {ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS}:
            return None
        value = attribute.value
        if attribute.type == ir.AttributeType.TENSOR:
            if value.size > SMALL_ELEMENTS or value.dtype.is_string():
                return None
            value = (value.dtype, tuple(value.shape), value.tobytes())
        elif isinstance(value, list | tuple):
            value = tuple(value)
        if not isinstance(value, Hashable):
            return None
        attributes.append((name, attribute.type, value))
    # Which optional outputs a node has can change what it computes (BatchNormalization before opset 14).
    present = tuple(bool(output.name) for output in node.outputs)
    return (
        node.op_identifier(),
        tuple(_alike(value) for value in node.inputs),
        tuple(sorted(attributes, key=str)),
        present,
    )


def _alike(value: "ir.Value | None") -> Hashable:
    """By what it is; a short weight by what it holds, for deduplicate-weights leaves some of these apart."""
    tensor = None if value is None or value.is_graph_input() else value.const_value
    if tensor is None or tensor.dtype.is_string() or tensor.nbytes > SHORT_BYTES:
        return id(value)
    return tensor.dtype, tuple(int(dim) for dim in tensor.shape), tensor.tobytes()


PASS = Pass("equal-subexpressions", "equal subexpressions are computed once", apply)
