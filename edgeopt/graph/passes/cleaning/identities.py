"""Removes nodes that return their input unchanged; `PASSES_ON` defines the condition for each operator."""

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
from edgeopt.graph.passes.knowledge.arithmetic import arithmetic
from edgeopt.graph.shapes.sizes import dimension, shape_of

if TYPE_CHECKING:
    import onnx_ir as ir


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
    """Returns the source of a Cast to the same type, or back from a type that holds all values of the first."""
    source = node.inputs[0]
    if source is None or source.dtype is None or node.attributes["to"].is_ref():
        return None
    to = node.attributes["to"].as_int()
    if source.dtype == to:
        return source
    before = source.producer()
    if before is None or not is_op(before, "Cast") or before.inputs[0] is None:
        return None
    first = before.inputs[0]
    same = first.dtype is not None and first.dtype == to
    return first if same and source.dtype.name in HOLDS.get(first.dtype.name, ()) else None


def _cast_like(node: "ir.Node") -> "ir.Value | None":
    source, like = node.inputs[0], node.inputs[1]
    known = source is not None and like is not None and source.dtype is not None
    return source if known and source.dtype == like.dtype else None


def _reshape(node: "ir.Node") -> "ir.Value | None":
    """Returns the source of a Reshape to the same shape; one dimension may be unknown, as the others fix it."""
    before, after = shape_of(node.inputs[0]), shape_of(node.outputs[0])
    if node.outputs[0].is_graph_output():
        after = None if after is None or not all(isinstance(size, int) for size in after) else after
    if before is None or after is None or len(before) != len(after) or 0 in before:
        return None
    differing = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    both_known = any(isinstance(a, int) and isinstance(b, int) for a, b in differing)
    return node.inputs[0] if len(differing) <= 1 and not both_known else None


def _squeeze(node: "ir.Node") -> "ir.Value | None":
    """Returns the source of a Squeeze that removes nothing, or only the dimensions that an Unsqueeze added."""
    return _undone(node, "Unsqueeze") or _reshape(node)


def _unsqueeze(node: "ir.Node") -> "ir.Value | None":
    return _undone(node, "Squeeze") or _reshape(node)


def _undone(node: "ir.Node", by: str) -> "ir.Value | None":
    before = node.inputs[0].producer() if node.inputs[0] is not None else None
    if before is None or not is_op(before, by):
        return None
    mine, its = _axes(node), _axes(before)
    same = mine is not None and mine == its and all(axis >= 0 for axis in mine)
    return before.inputs[0] if same else None


def _axes(node: "ir.Node") -> list[int] | None:
    if "axes" in node.attributes:
        return None if node.attributes["axes"].is_ref() else sorted(node.attributes["axes"].as_ints())
    array = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    return None if array is None else sorted(int(axis) for axis in array.reshape(-1))


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
    """Returns the source of an Expand whose target shape adds no dimension and changes no size."""
    shape, target = node.inputs[0].shape, constant(node.inputs[1])
    if shape is None or target is None or len(target) > len(shape):
        return None
    pairs = zip(reversed(list(shape)), reversed(target.tolist()), strict=False)
    return node.inputs[0] if all(want in {1, have} for have, want in pairs) else None


def _slice(node: "ir.Node") -> "ir.Value | None":
    """Returns the source of a Slice that takes every axis from start to end with step 1."""
    source = node.inputs[0]
    arrays = [None if value is None else constant(value) for value in node.inputs[1:]]
    if source is None or len(arrays) < 2 or arrays[0] is None or arrays[1] is None:
        return None
    if any(array is None and value is not None for array, value in zip(arrays, node.inputs[1:], strict=True)):
        return None
    count = len(arrays[0])
    axes = range(count) if len(arrays) < 3 or arrays[2] is None else arrays[2].tolist()
    steps = [1] * count if len(arrays) < 4 or arrays[3] is None else arrays[3].tolist()
    for start, end, axis, step in zip(arrays[0].tolist(), arrays[1].tolist(), axes, steps, strict=True):
        size = dimension(source, axis)
        whole = end >= size if isinstance(size, int) else end >= NO_END
        if start != 0 or step != 1 or not whole:
            return None
    return source


def _resize(node: "ir.Node") -> "ir.Value | None":
    """Returns the source of a Resize to its own size, which samples each pixel exactly."""
    source = node.inputs[0]
    mode = node.attributes.get("coordinate_transformation_mode")
    if source is None or (mode is not None and (mode.is_ref() or mode.as_string() == "tf_crop_and_resize")):
        return None
    index = 1 if node.op_type == "Upsample" or len(node.inputs) == 2 else 2
    scales = constant(node.inputs[index]) if len(node.inputs) > index else None
    if scales is not None and scales.size:
        return source if (scales == 1).all() else None
    target = constant(node.inputs[3]) if len(node.inputs) > 3 else None
    plain = not {"axes", "keep_aspect_ratio_policy"} & set(node.attributes)
    have = shape_of(source)
    return source if target is not None and plain and have == tuple(target.tolist()) else None


def _tile(node: "ir.Node") -> "ir.Value | None":
    repeats = constant(node.inputs[1]) if len(node.inputs) == 2 else None
    return node.inputs[0] if repeats is not None and (repeats == 1).all() else None


def _split(node: "ir.Node") -> "ir.Value | None":
    return node.inputs[0] if len(node.outputs) == 1 else None


def _clip(node: "ir.Node") -> "ir.Value | None":
    """Returns the source of an integer Clip without limits; a Clip of floats still limits infinities."""
    limits = [value for value in node.inputs[1:] if value is not None]
    x = node.inputs[0]
    whole = x is not None and x.dtype is not None and x.dtype.is_integer()
    return x if whole and not limits and not node.attributes else None


def _concat(node: "ir.Node") -> "ir.Value | None":
    """Returns the source of a Concat of one tensor, or of all parts of a Split in their order."""
    if len(node.inputs) == 1:
        return node.inputs[0]
    first = node.inputs[0].producer() if node.inputs[0] is not None else None
    if first is None or not is_op(first, "Split") or list(first.outputs) != list(node.inputs):
        return None
    axis, cut = node.attributes["axis"].as_int(), first.attributes.get("axis")
    source = first.inputs[0]
    if source is None or source.shape is None or (cut is not None and cut.is_ref()):
        return None
    cut_axis = 0 if cut is None else cut.as_int()
    return source if axis % len(source.shape) == cut_axis % len(source.shape) else None


def _pool(node: "ir.Node") -> "ir.Value | None":
    """Returns the source of a pool over single pixels."""
    kernel = node.attributes.get("kernel_shape")
    if kernel is None or kernel.is_ref() or any(side != 1 for side in kernel.as_ints()):
        return None
    others = {"strides": 1, "pads": 0}
    for name, neutral in others.items():
        attribute = node.attributes.get(name)
        if attribute is not None and (attribute.is_ref() or any(n != neutral for n in attribute.as_ints())):
            return None
    single = not any(output.name for output in node.outputs[1:])
    return node.inputs[0] if single else None


NO_END = 2**31 - 1  # what exporters write for "to the end"; no dimension is that long
HOLDS = {
    "BOOL": ("UINT8", "INT8", "INT16", "INT32", "INT64", "FLOAT16", "FLOAT", "DOUBLE"),
    "UINT8": ("UINT16", "INT16", "INT32", "INT64", "FLOAT16", "FLOAT", "DOUBLE"),
    "INT8": ("INT16", "INT32", "INT64", "FLOAT16", "FLOAT", "DOUBLE"),
    "INT16": ("INT32", "INT64", "FLOAT", "DOUBLE"),
    "INT32": ("INT64", "DOUBLE"),
    "FLOAT16": ("FLOAT", "DOUBLE"),
    "BFLOAT16": ("FLOAT", "DOUBLE"),
    "FLOAT": ("DOUBLE",),
}
"""Types that represent every value of a type, by that type."""

PASSES_ON: "dict[str, Callable[[ir.Node], ir.Value | str | None]]" = {
    "Identity": _always,
    "Add": arithmetic,
    "Sub": arithmetic,
    "Mul": arithmetic,
    "Div": arithmetic,
    "Concat": _concat,
    "Sum": _always,
    "Max": _always,
    "Min": _always,
    "Mean": _always,
    "Dropout": _dropout,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Reshape": _reshape,
    "Flatten": _reshape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Pad": _pad,
    "Expand": _expand,
    "Slice": _slice,
    "Resize": _resize,
    "Upsample": _resize,
    "Tile": _tile,
    "Split": _split,
    "Clip": _clip,
    "MaxPool": _pool,
    "AveragePool": _pool,
}


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Removes the nodes without effect from all graphs."""
    model, notes = context.copy(model), Notes()
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


PASS = Pass("identities", "nodes that return their input unchanged are removed", apply)
