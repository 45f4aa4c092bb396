"""Removes nodes that pass their input on unchanged: one small function a kind of node says when they do."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import (
    Notes,
    Pass,
    PassContext,
    PassResult,
    constant,
    is_op,
    label,
    parts,
    plural,
    replace_value,
)

if TYPE_CHECKING:
    import onnx_ir as ir


def apply(model: "ir.Model", context: PassContext) -> PassResult:  # noqa: ARG001 - every pass has this signature
    """Takes the nodes that change nothing out of all graphs."""
    model, notes = model.clone(), Notes()
    removed: dict[str, list[str]] = {}
    for part in parts(model):
        for node in list(part):
            passes_on = PASSES_ON.get(node.op_type) if is_op(node, node.op_type) else None
            source = passes_on(node) if passes_on else None
            if source is None:
                continue
            if isinstance(source, str):
                notes.refuse(source, label(node))
            elif reason := replace_value(node.outputs[0], source):
                if not is_op(node, "Identity"):  # an Identity there is how ONNX spells "this input is that output"
                    notes.refuse(reason, label(node))
            else:
                removed.setdefault(node.op_type, []).append(label(node))
                part.remove(node, safe=True)
    for kind, names in removed.items():
        notes.did(f"removed {plural(len(names), f'{kind} node')} without effect", *names)
    return notes.result(model)


def _always(node: "ir.Node") -> "ir.Value | None":
    return node.inputs[0] if len(node.inputs) == 1 else None


def _dropout(node: "ir.Node") -> "ir.Value | str | None":
    if len(node.outputs) > 1 and (node.outputs[1].uses() or node.outputs[1].is_graph_output()):
        return "the mask of the Dropout is used"
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        training = constant(node.inputs[2])
        if training is None or training.any():
            return "the Dropout is, or may be, in training mode"
    return node.inputs[0]


def _cast(node: "ir.Node") -> "ir.Value | None":
    source = node.inputs[0]
    return source if source.dtype is not None and source.dtype == node.attributes["to"].as_int() else None


def _reshape(node: "ir.Node") -> "ir.Value | None":
    """Same shape before and after; one unknown dimension may be left, as the others fix it."""
    before, after = node.inputs[0].shape, node.outputs[0].shape
    if before is None or after is None or len(before) != len(after) or 0 in list(before):
        return None
    differing = sum(
        1 for a, b in zip(before, after, strict=True) if not (isinstance(a, int) and isinstance(b, int) and a == b)
    )
    both_known = any(
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(before, after, strict=True)
    )
    return node.inputs[0] if differing <= 1 and not both_known else None


def _transpose(node: "ir.Node") -> "ir.Value | None":
    order = _order(node)
    if order is None:
        return None
    if order == sorted(order):
        return node.inputs[0]
    before = node.inputs[0].producer()
    if before is not None and is_op(before, "Transpose") and (first := _order(before)) is not None:
        return before.inputs[0] if [first[i] for i in order] == sorted(order) else None
    return None


def _order(node: "ir.Node") -> list[int] | None:
    if "perm" in node.attributes:
        return None if node.attributes["perm"].is_ref() else list(node.attributes["perm"].as_ints())
    shape = node.inputs[0].shape
    return None if shape is None else list(reversed(range(len(shape))))


def _pad(node: "ir.Node") -> "ir.Value | None":
    if "pads" in node.attributes:
        return node.inputs[0] if not any(node.attributes["pads"].as_ints()) else None
    pads = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    return node.inputs[0] if pads is not None and not pads.any() else None


def _expand(node: "ir.Node") -> "ir.Value | None":
    """To a shape of ones that asks for no more dimensions than there are."""
    shape, wanted = node.inputs[0].shape, constant(node.inputs[1])
    if shape is None or wanted is None or len(wanted) > len(shape):
        return None
    pairs = zip(reversed(list(shape)), reversed(wanted.tolist()), strict=False)
    return node.inputs[0] if all(want in {1, have} for have, want in pairs) else None


PASSES_ON: "dict[str, Callable[[ir.Node], ir.Value | str | None]]" = {
    "Identity": _always,
    "Concat": _always,
    "Sum": _always,
    "Max": _always,
    "Min": _always,
    "Mean": _always,
    "Dropout": _dropout,
    "Cast": _cast,
    "Reshape": _reshape,
    "Flatten": _reshape,
    "Squeeze": _reshape,
    "Transpose": _transpose,
    "Pad": _pad,
    "Expand": _expand,
}

PASS = Pass("identities", "nodes that pass their input on unchanged go away", apply)
