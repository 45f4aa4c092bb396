"""Replacement of operators by equivalent forms that a runtime computes faster."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, PassContext, PassResult, is_op, label, nodes_of
from edgeopt.graph.passes.fusion.activations import find_gelu
from edgeopt.graph.passes.fusion.normalizations import find_layer_normalization, find_rms_normalization
from edgeopt.graph.passes.knowledge.matching import homes

if TYPE_CHECKING:
    import onnx_ir as ir

EVERYWHERE = ("onnxruntime", "openvino")


@dataclass(frozen=True, slots=True)
class OperatorForm:
    """A replacement form; `replace` returns the removed nodes, why it refuses, or None for unmatched nodes."""

    what: str
    replace: "Callable[[ir.Graph, ir.Node], list[str] | str | None]"
    runtimes: tuple[str, ...] = EVERYWHERE
    """Runtimes on which the form was measured to be no slower; others get it only as a lowering of their own."""
    opset: int = 0
    """Lowest opset with the operators of the form."""


def rewrite(model: "ir.Model", context: PassContext, forms: Sequence[OperatorForm]) -> PassResult:
    """Replaces each node by the first form that accepts it; nodes that runtimes fuse stay together."""
    import onnx_ir as ir

    model, notes = context.copy(model), Notes()
    whole = spelled_out(model)
    for part, opset in homes(model):
        if not isinstance(part, ir.Graph):
            continue  # a function can hold no weights
        possible = [form for form in forms if opset >= form.opset]
        for node in list(part):
            if node.graph is not part or node in whole:
                continue  # removed with another node, or fused by a runtime
            for form in possible:
                found = form.replace(part, node)
                if isinstance(found, str):
                    notes.refuse(found, label(node))
                elif found is not None:
                    notes.did(form.what, *found)
                    break
    return notes.result(model)


def maker(node: "ir.Node | None", kind: str, place: int = 0) -> "ir.Node | None":
    """Returns the node that produces an input, if it is of this kind."""
    value = node.inputs[place] if node is not None and place < len(node.inputs) else None
    made_by = value.producer() if value is not None else None
    return made_by if made_by is not None and is_op(made_by, kind) else None


def inner(node: "ir.Node | None", *kinds: str, place: int = 0) -> "ir.Node | None":
    """Returns the node of one of these kinds that produces an input, if nothing else uses its result."""
    found = next((one for kind in kinds if (one := maker(node, kind, place)) is not None), None)
    if found is None or node is None or found.graph is not node.graph:
        return None
    result = found.outputs[0]
    return found if len(result.uses()) == 1 and not result.is_graph_output() else None


def take_place(graph: "ir.Graph", old: "ir.Node", new: "ir.Node") -> None:
    """Replaces a node by another, which takes over its result's name, type and shape."""
    was, now = old.outputs[0], new.outputs[0]
    name, now.shape, now.type = was.name, was.shape, was.type
    graph.insert_before(old, new)
    was.replace_all_uses_with(now, replace_graph_outputs=True)
    graph.remove(old, safe=True)
    was.name, now.name = f"{name}__replaced", name


FINDERS = (
    ("GELU", find_gelu),
    ("layer normalization", find_layer_normalization),
    ("RMS normalization", find_rms_normalization),
)


def spelled_out(model: "ir.Model") -> "dict[ir.Node, str]":
    """Returns the nodes that a runtime fuses into one operator when it loads, each with that operator.

    Below the opset of the operator, the passes here do not fuse these nodes, and other passes must not change
    them: without its last factor, ONNX Runtime does not recognize a GELU and runs all of its parts.
    """
    found: dict[ir.Node, str] = {}
    for node in nodes_of(model):
        for name, find in FINDERS:
            match = find(node)
            if match is not None and match.reason is None:
                found.update(dict.fromkeys(match.nodes, name))
    return found
