"""Pixels that are sorted into channels before a convolution are read by the convolution itself, in wider steps.

    Conv(Concat(x[:, :, i1::n, j1::n], x[:, :, i2::n, j2::n], ..., axis = 1), W)
      =  Conv(x, W', strides = n * strides, pads = n * pads)
         W'[o, c, n * y + i, n * x + j] = W[o, the place of (i, j, c) in the Concat, y, x]

The same products are summed, without copies of the picture (the "focus" layer of YOLO models). A SpaceToDepth
says the same. The picture's sides must be multiples of n.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, constant, is_op, label
from edgeopt.graph.passes.knowledge.linear import integer, new_weight
from edgeopt.graph.passes.knowledge.names import separate_names

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray

_LARGEST_STEP = 8


def apply(model: "ir.Model", context: PassContext) -> PassResult:
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
            if reason := _why_not(found, concat, conv):
                notes.refuse(reason, label(concat))
                continue
            _widen(part, conv, source, step, offsets)
            notes.did("let a convolution read pixels with a stride instead of sorting them first", label(concat))
    separate_names(model)
    return notes.result(model)


def _sorted_pixels(node: "ir.Node") -> "tuple[ir.Value, int, list[tuple[int, int]]] | None":
    """The picture, the step, and where each group of channels starts; None for other nodes."""
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
    """x[:, :, i::n, j::n] as x, n, (i, j)."""
    node = value.producer() if value is not None else None
    if node is None or not is_op(node, "Slice") or len(node.inputs) < 5:
        return None
    starts, ends, axes, steps = (constant(given) for given in node.inputs[1:5])
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


def _why_not(
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


def _widen(
    part: "ir.Graph", conv: "ir.Node", source: "ir.Value", step: int, offsets: list[tuple[int, int]]
) -> None:
    import onnx_ir as ir

    weights = constant(conv.inputs[1])
    assert weights is not None  # noqa: S101 - _why_not() has seen to it
    wide = wider(weights, step, offsets)
    conv.replace_input_with(0, source)
    conv.replace_input_with(1, new_weight(part, f"{conv.name or conv.outputs[0].name}_stepped_weight", wide))
    for name, default in (("strides", [1, 1]), ("pads", [0, 0, 0, 0])):
        given = list(conv.attributes[name].as_ints()) if name in conv.attributes else default
        conv.attributes[name] = ir.AttrInt64s(name, [n * step for n in given])
    conv.attributes.pop("auto_pad", None)  # it pads nothing, as the pads now say
    conv.attributes["kernel_shape"] = ir.AttrInt64s("kernel_shape", wide.shape[2:])


def wider(weights: "NDArray[Any]", step: int, offsets: list[tuple[int, int]]) -> "NDArray[Any]":
    """The weights laid out over the unsorted picture; places that no group reads are zero."""
    results, channels, height, width = weights.shape
    depth = channels // len(offsets)
    wide = np.zeros((results, depth, height * step, width * step), weights.dtype)
    for group, (row, column) in enumerate(offsets):
        wide[:, :, row::step, column::step] += weights[:, group * depth : (group + 1) * depth]
    return wide


PASS = Pass(
    "focus-into-conv",
    "convolutions read pixels with a stride instead of pixels sorted into channels",
    apply,
    tolerance_db=100.0,
)
