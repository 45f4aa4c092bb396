"""Fusion of pixel reordering before convolutions, and of parallel convolutions."""

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, constant, is_op, label
from edgeopt.graph.passes.knowledge.linear import integer, new_weight, why_not_copied
from edgeopt.graph.passes.knowledge.names import separate_names

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray

_LARGEST_STEP = 8


def apply_focus_into_conv(model: "ir.Model", context: PassContext) -> PassResult:
    """Replaces the sorting of pixels into channels before a convolution by a convolution with larger steps.

        Conv(Concat(x[:, :, i1::n, j1::n], x[:, :, i2::n, j2::n], ..., axis = 1), W)
          =  Conv(x, W', strides = n * strides, pads = n * pads)
             W'[o, c, n * y + i, n * x + j] = W[o, the place of (i, j, c) in the Concat, y, x]

    The same products are summed, without copies of the picture (the "focus" layer of YOLO models); a SpaceToDepth
    is handled too. The picture's sides must be multiples of n.
    """
    model, notes = context.copy(model), Notes()
    for part in model.graphs():  # functions are inlined before; they can hold no weights
        for conv in [node for node in part if is_op(node, "Conv")]:
            concat = conv.inputs[0].producer() if conv.inputs[0] is not None else None
            if concat is None or not is_op(concat, "Concat", "SpaceToDepth"):
                continue
            found = _sorted_pixels(concat)
            if found is None:
                continue
            source, step, offsets = found
            if reason := _why_not_focus(found, concat, conv):
                notes.refuse(reason, label(concat))
                continue
            _widen_kernel(part, conv, source, step, offsets)
            notes.did("let a convolution read pixels with a stride instead of sorting them first", label(concat))
    separate_names(model)
    return notes.result(model)


def _sorted_pixels(node: "ir.Node") -> "tuple[ir.Value, int, list[tuple[int, int]]] | None":
    """Returns the picture, the step, and the offset of each group of channels; None for other nodes."""
    if is_op(node, "SpaceToDepth"):
        step = integer(node, "blocksize", 1)
        source = node.inputs[0]
        return None if source is None else (source, step, [(i, j) for i in range(step) for j in range(step)])
    if integer(node, "axis", 0) != 1:
        return None
    slices = [_strided(value) for value in node.inputs]
    known = [each for each in slices if each is not None]
    if len(known) != len(slices) or not known:
        return None
    source, step = known[0][0], known[0][1]
    if any(each[0] is not source or each[1] != step for each in known) or step > _LARGEST_STEP:
        return None
    return source, step, [each[2] for each in known]


def _strided(value: "ir.Value | None") -> "tuple[ir.Value, int, tuple[int, int]] | None":
    """Matches x[:, :, i::n, j::n] and returns x, n, (i, j)."""
    node = value.producer() if value is not None else None
    if node is None or not is_op(node, "Slice") or len(node.inputs) < 5:
        return None
    starts, ends, axes, steps = (constant(each) for each in node.inputs[1:5])
    source = node.inputs[0]
    if source is None or source.shape is None or starts is None or ends is None or axes is None or steps is None:
        return None
    rank = len(source.shape)
    rows = {int(a) % rank: (int(s), int(e), int(n)) for a, s, e, n in zip(axes, starts, ends, steps, strict=True)}
    sizes = source.shape
    if rank != 4 or set(rows) != {2, 3} or rows[2][2] != rows[3][2] or rows[2][2] < 2:
        return None
    step = rows[2][2]
    for axis in (2, 3):
        size = sizes[axis]
        if (
            not isinstance(size, int)
            or not 0 <= rows[axis][0] < step
            or rows[axis][1] <= size - step + rows[axis][0]
        ):
            return None
    return source, step, (rows[2][0], rows[3][0])


def _why_not_focus(
    found: "tuple[ir.Value, int, list[tuple[int, int]]]", concat: "ir.Node", conv: "ir.Node"
) -> str | None:
    source, step, offsets = found
    result = concat.outputs[0]
    if result.is_graph_output() or len(result.uses()) > 1:
        return "its output is used elsewhere too"
    if concat.graph is not conv.graph:
        return "the convolution after it is in another graph"
    sizes = list(source.shape or ())[2:]
    if not sizes or any(not isinstance(size, int) or size % step for size in sizes):
        return f"the sides of the picture may not be multiples of {step}"
    if len(set(offsets)) < step * step:
        return "some pixels are not read, and the convolution would multiply them by zeros"
    if constant(conv.inputs[1]) is None:
        return "the weights of the convolution are not constant"
    if integer(conv, "group", 1) != 1:
        return "the convolution is in groups"
    if "dilations" in conv.attributes and any(n != 1 for n in conv.attributes["dilations"].as_ints()):
        return "the convolution is dilated"
    if "auto_pad" in conv.attributes and conv.attributes["auto_pad"].as_string() not in {"NOTSET", "VALID"}:
        return "the convolution chooses its padding at run time (auto_pad)"
    return None


def _widen_kernel(
    part: "ir.Graph", conv: "ir.Node", source: "ir.Value", step: int, offsets: list[tuple[int, int]]
) -> None:
    import onnx_ir as ir

    weights = constant(conv.inputs[1])
    assert weights is not None  # noqa: S101 - _why_not() has seen to it
    wide = wider(weights, step, offsets)
    conv.replace_input_with(0, source)
    conv.replace_input_with(1, new_weight(part, f"{conv.name or conv.outputs[0].name}_stepped_weight", wide))
    for name, default in (("strides", [1, 1]), ("pads", [0, 0, 0, 0])):
        sizes = list(conv.attributes[name].as_ints()) if name in conv.attributes else default
        conv.attributes[name] = ir.AttrInt64s(name, [n * step for n in sizes])
    conv.attributes.pop("auto_pad", None)  # redundant: `pads` states the padding
    conv.attributes["kernel_shape"] = ir.AttrInt64s("kernel_shape", wide.shape[2:])


def wider(weights: "NDArray[Any]", step: int, offsets: list[tuple[int, int]]) -> "NDArray[Any]":
    """Returns the weights for the unsorted picture; positions that no group reads are zero."""
    results, channels, height, width = weights.shape
    depth = channels // len(offsets)
    wide = np.zeros((results, depth, height * step, width * step), weights.dtype)
    for group, (row, column) in enumerate(offsets):
        wide[:, :, row::step, column::step] += weights[:, group * depth : (group + 1) * depth]
    return wide


FOCUS_INTO_CONV = Pass(
    "focus-into-conv",
    "convolutions read pixels with a stride instead of pixels sorted into channels",
    apply_focus_into_conv,
    tolerance_db=100.0,
)


def apply_parallel_convs(model: "ir.Model", context: PassContext) -> PassResult:
    """Merges convolutions of one picture whose results are concatenated into one wider convolution.

        Concat(conv(x, W1) + b1, conv(x, W2) + b2, axis = 1)  =  conv(x, [W1; W2]) + [b1; b2]

    The convolutions must be equal except for their weights, and adjacent in the Concat.
    """
    model, notes = context.copy(model), Notes()
    for part in model.graphs():  # functions are inlined before; they can hold no weights
        for concat in [node for node in part if is_op(node, "Concat") and _by_channel(node)]:
            for group in list(_groups(concat)):
                names = [label(node) for node in group]
                if reason := _why_not_parallel(concat, group, context.folded_limit_bytes):
                    notes.refuse(reason, *names)
                    continue
                _widen_output(part, concat, group)
                notes.did("made one convolution of several side by side", *names)
    separate_names(model)
    return notes.result(model)


def _by_channel(concat: "ir.Node") -> bool:
    """Whether a Concat joins channels; a negative axis proves that only if the rank is known."""
    axis, shape = integer(concat, "axis", 0), concat.outputs[0].shape
    return axis == 1 or (shape is not None and axis == 1 - len(shape))


def _groups(concat: "ir.Node") -> "Iterator[list[ir.Node]]":
    """Yields adjacent inputs of a Concat that are convolutions of the same value with equal attributes."""

    def key(value: "ir.Value | None") -> object:
        conv = value.producer() if value is not None else None
        if conv is None or not is_op(conv, "Conv") or integer(conv, "group", 1) != 1:
            return id(value), "", ""
        attributes = sorted((name, str(a.value)) for name, a in conv.attributes.items() if name != "kernel_shape")
        weights = conv.inputs[1]
        shape = weights.shape if weights is not None else None
        return id(conv.inputs[0]), str(attributes), str(shape[1:] if shape is not None else id(weights))

    for _, values in groupby(concat.inputs, key):
        nodes = [value.producer() for value in values if value is not None]
        found = [node for node in nodes if node is not None and is_op(node, "Conv")]
        if len(found) > 1 and len(found) == len(nodes):
            yield found


def _why_not_parallel(concat: "ir.Node", group: "list[ir.Node]", limit_bytes: int) -> str | None:
    if len(set(map(id, group))) < len(group):
        return "the same result is put there twice"
    for conv in group:
        result = conv.outputs[0]
        if result.is_graph_output() or len(result.uses()) > 1:
            return "the output of one of the convolutions is used elsewhere too"
        if conv.graph is not concat.graph:
            return "one of the convolutions is outside the subgraph that holds the Concat"
        if constant(conv.inputs[1]) is None:
            return "the weights of one of the convolutions are not constant"
        if len(conv.inputs) > 2 and conv.inputs[2] is not None and constant(conv.inputs[2]) is None:
            return "the bias of one of the convolutions is not constant"
        if reason := why_not_copied(conv, limit_bytes):
            return reason
    return None


def _widen_output(part: "ir.Graph", concat: "ir.Node", group: "list[ir.Node]") -> None:
    first = group[0]
    arrays = [constant(conv.inputs[1]) for conv in group]
    weights = [array for array in arrays if array is not None]
    found = [constant(conv.inputs[2]) if len(conv.inputs) > 2 else None for conv in group]
    stem = first.name or first.outputs[0].name or "conv"
    first.replace_input_with(1, new_weight(part, f"{stem}_wider_weight", np.concatenate(weights)))
    if any(bias is not None for bias in found):
        biases = [
            np.zeros(len(w), w.dtype) if bias is None else bias for bias, w in zip(found, weights, strict=True)
        ]
        first.resize_inputs(3)
        first.replace_input_with(2, new_weight(part, f"{stem}_wider_bias", np.concatenate(biases)))
    gone = [conv.outputs[0] for conv in group[1:]]
    kept = [value for value in concat.inputs if not any(value is each for each in gone)]
    concat.resize_inputs(len(kept))
    for place, value in enumerate(kept):
        concat.replace_input_with(place, value)
    # The inputs of all are available before the first, so the wider convolution can take its position.
    first.outputs[0].shape = None
    for conv in group[1:]:
        part.remove(conv, safe=True)


PARALLEL_CONVS = Pass(
    "parallel-convs",
    "convolutions side by side become one wider convolution",
    apply_parallel_convs,
    tolerance_db=100.0,
)
