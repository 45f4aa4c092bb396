"""What moves numbers without computing any, and casts."""

import numpy as np

from edgeopt.commands.ops.case import Attributes
from edgeopt.commands.ops.references.formula import Arrays, Formula, Inputs, integer, integers, word

_TYPES = {1: "float32", 2: "uint8", 3: "int8", 6: "int32", 7: "int64", 9: "bool", 10: "float16"}
"""Of TensorProto.DataType."""


def _reshape(inputs: Inputs, _: Attributes) -> Arrays:
    return [inputs[0].reshape(tuple(int(size) for size in inputs[1]))]


def _flatten(inputs: Inputs, attributes: Attributes) -> Arrays:
    axis = integer(attributes, "axis", 1)
    return [inputs[0].reshape(int(np.prod(inputs[0].shape[:axis])), -1)]


def _concat(inputs: Inputs, attributes: Attributes) -> Arrays:
    return [np.concatenate([inputs[k] for k in range(len(inputs))], axis=integer(attributes, "axis", 0))]


def _split(inputs: Inputs, attributes: Attributes) -> Arrays:
    axis, sizes = integer(attributes, "axis", 0), inputs.axes(1)
    if sizes is None:
        count = integer(attributes, "num_outputs", 1)
        part = -(-inputs[0].shape[axis] // count)
        sizes = (part,) * count
    return list(np.split(inputs[0], np.cumsum(sizes)[:-1], axis=axis))


def _slice(inputs: Inputs, _: Attributes) -> Arrays:
    starts, ends = inputs.axes(1) or (), inputs.axes(2) or ()
    axes = inputs.axes(3) or tuple(range(len(starts)))
    steps = inputs.axes(4) or (1,) * len(starts)
    cut = [slice(None)] * inputs[0].ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        before_all = step < 0 and end < -inputs[0].shape[axis]
        cut[axis] = slice(start, None if before_all else end, step)
    return [inputs[0][tuple(cut)]]


def _gather(inputs: Inputs, attributes: Attributes) -> Arrays:
    return [np.take(inputs[0], inputs[1], axis=integer(attributes, "axis", 0))]


def _depth_to_space(inputs: Inputs, attributes: Attributes) -> Arrays:
    """CRD: the blocks of one channel lie side by side in the depth."""
    batch, channels, height, width = inputs[0].shape
    side = integer(attributes, "blocksize", 1)
    parts = inputs[0].reshape(batch, channels // side**2, side, side, height, width)
    moved = parts.transpose(0, 1, 4, 2, 5, 3)
    return [moved.reshape(batch, channels // side**2, height * side, width * side)]


def _pad(inputs: Inputs, attributes: Attributes) -> Arrays:
    flat = inputs.axes(1) or ()
    widths = list(zip(flat[: len(flat) // 2], flat[len(flat) // 2 :], strict=True))
    mode = word(attributes, "mode", "constant")
    if mode == "constant":
        return [np.pad(inputs[0], widths)]
    if mode == "edge":
        return [np.pad(inputs[0], widths, mode="edge")]
    return [np.pad(inputs[0], widths, mode="reflect" if mode == "reflect" else "wrap")]


def _cast(inputs: Inputs, attributes: Attributes) -> Arrays:
    """What has a fraction loses it towards zero."""
    return [inputs[0].astype(_TYPES[integer(attributes, "to", 1)])]


FORMULAS: dict[str, Formula] = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": lambda inputs, attributes: [inputs[0].transpose(integers(attributes, "perm", ()))],
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "Squeeze": lambda inputs, _: [np.squeeze(inputs[0], inputs.axes(1))],
    "Unsqueeze": lambda inputs, _: [np.expand_dims(inputs[0], inputs.axes(1) or ())],
    "Expand": lambda inputs, _: [np.broadcast_to(inputs[0], inputs.axes(1) or ())],
    "DepthToSpace": _depth_to_space,
    "Pad": _pad,
    "Cast": _cast,
}
