"""Computes once what a graph computes twice: nodes with the same operator, inputs and attributes."""

from collections.abc import Hashable
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import (
    Notes,
    Pass,
    PassContext,
    PassResult,
    is_random,
    label,
    parts,
    plural,
    replace_value,
)

if TYPE_CHECKING:
    import onnx_ir as ir

SMALL_ELEMENTS = 64  # comparing more in attributes costs more than it finds


def apply(model: "ir.Model", context: PassContext) -> PassResult:  # noqa: ARG001 - every pass has this signature
    """Merges equal nodes within each graph."""
    model, notes, merged = model.clone(), Notes(), []
    for part in parts(model):
        first: dict[Hashable, ir.Node] = {}
        for node in list(part):
            key = _key(node)
            if key is None:
                continue
            twin = first.setdefault(key, node)
            if twin is node:
                continue
            if is_random(node):
                notes.refuse("it draws random numbers, so two of them are not the same", label(node))
            elif any(
                a.is_graph_output() and b.is_graph_output()
                for a, b in zip(node.outputs, twin.outputs, strict=True)
            ):
                notes.refuse("both results are outputs of the graph", label(node))
            else:
                merged.append(label(node))
                for old, new in zip(node.outputs, twin.outputs, strict=True):
                    replace_value(old, new)
                part.remove(node, safe=True)
    if merged:
        notes.did(f"merged {plural(len(merged), 'node')} with an equal one", *merged)
    return notes.result(model)


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
        tuple(id(value) for value in node.inputs),
        tuple(sorted(attributes, key=str)),
        present,
    )


PASS = Pass("equal-subexpressions", "what is computed twice is computed once", apply)
