"""A Resize goes into the convolution that alone reads it, which then reads the picture itself, in wider steps.

    conv(R x, W)  =  conv(x, W')        strides' = strides / s,  pads' = pads / s + what the kernel begins earlier
                                        W'[y', x'] = sum over y, x of W[y, x] k(y, y') k(x, x')

Where a picture becomes n times smaller (s = 1/n), k(y, .) are the weights of the pixels that the place y of the
kernel gets: of nearest and of linear with odd n a single one (W' is then W, dilated), of linear with even n two by
two. Where it becomes m times larger and the strides are multiples of m, places of the kernel that read the same
pixel become one. What the convolution pads, and what a Pad between the two does, is padded around the picture.

W' must be the same for each output, those at the border too. On request, as what it gains depends on sizes and on
the runtime: most where W' is no larger than W, and a loss where linear widens it much
(`benchmarks/operator_forms.py`, half-of-448 to third-of-672). Where the wider kernel is expected to take longer
than the Resize does, it is refused.
"""

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, constant, is_op, label
from edgeopt.graph.passes.knowledge.linear import fits, new_weight, weights_of, why_not_weights
from edgeopt.graph.passes.knowledge.names import separate_names
from edgeopt.graph.passes.knowledge.resizing import described, taps_of
from edgeopt.graph.passes.knowledge.windows import Folded, window_over, windows_of

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray

_RESIZED_PIXEL = 220
"""So many products of a convolution take as long as it takes to make one number of a resized picture (linear)."""


@dataclass(frozen=True, slots=True)
class _Resize:
    """A Resize, what may pad behind it, and the convolution that reads this."""

    resize: "ir.Node"
    pad: "ir.Node | None"
    conv: "ir.Node"


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    opset = model.opset_imports.get("", context.target_opset)
    model, notes = context.copy(model), Notes()
    for part in model.graphs():  # functions are inlined before; they can hold no weights
        for node in list(part):
            found = _found(node) if is_op(node, "Resize", "Upsample") else None
            if found is None:
                continue
            folded = _folded(found, opset, context.folded_limit_bytes)
            if isinstance(folded, str):
                notes.refuse(folded, label(node))
                continue
            notes.did("let a convolution read the picture before it is resized", label(node), label(found.conv))
            _put_in(part, found, *folded)
    separate_names(model)
    return notes.result(model)


def _found(resize: "ir.Node") -> _Resize | None:
    """None where no convolution reads it, directly or through a Pad."""
    readers = [use.node for use in resize.outputs[0].uses() if use.idx == 0]
    for node in readers:
        if is_op(node, "Conv"):
            return _Resize(resize, None, node)
    for node in readers:
        convs = [use.node for use in node.outputs[0].uses() if use.idx == 0 and is_op(use.node, "Conv")]
        if is_op(node, "Pad") and convs:
            return _Resize(resize, node, convs[0])
    return None


def _folded(found: _Resize, opset: int, limit_bytes: int) -> "tuple[tuple[Folded, ...], NDArray[Any]] | str":
    """The windows over the picture and the new weights, or why there are none."""
    between = (found.resize,) if found.pad is None else (found.resize, found.pad)
    if any(len(node.outputs[0].uses()) > 1 or node.outputs[0].is_graph_output() for node in between):
        return "its output is used elsewhere too"
    if any(node.graph is not found.resize.graph for node in (*between, found.conv)):
        return "the convolution behind it is in another graph"
    if reason := why_not_weights(found.conv, limit_bytes):
        return f"of the convolution behind it, {reason}"
    taps = taps_of(found.resize, opset)
    if isinstance(taps, str):
        return taps
    windows = windows_of(found.conv, found.pad, [side.resized for side in taps])
    if isinstance(windows, str):
        return windows
    folded: list[Folded] = []
    for side, window in zip(taps, windows, strict=True):
        over = window_over(side, window)
        if isinstance(over, str):
            return f"{over} ({described(found.resize)})"
        if found.pad is not None and not over.spread.any(axis=1).all():
            return "a part of the kernel reads nothing but what the Pad behind it adds"
        folded.append(over)
    outputs = prod(window.outputs(side.resized) for side, window in zip(taps, windows, strict=True))
    pixels = prod(side.resized for side in taps)
    return _weighed(found.conv, tuple(folded), outputs, pixels, limit_bytes)


def _weighed(
    conv: "ir.Node", folded: tuple[Folded, ...], outputs: int, pixels: int, limit_bytes: int
) -> "tuple[tuple[Folded, ...], NDArray[Any]] | str":
    """The new weights, where they are not too dear for so many outputs, and so many pixels that were resized."""
    weights = weights_of(conv)
    grown = prod(one.window.kernel for one in folded) / prod(weights.shape[2:])
    resizing = _RESIZED_PIXEL * pixels * weights.shape[1] * conv.attributes.get_int("group", 1)
    if (dearer := grown * outputs * weights.size / (outputs * weights.size + resizing)) > 1:
        return f"the convolution alone would take about {dearer:.1f} times as long as both do now"
    held = 0 if constant(conv.inputs[1]) is None else weights.nbytes
    if grown * weights.nbytes - held > limit_bytes:
        return f"the weights of the convolution would be {grown:.0f} times as large"
    wide = weights.astype(np.float64)
    for one in folded:  # each takes the first axis of the kernel, and leaves the new one as the last
        wide = np.tensordot(wide, one.spread, axes=(2, 0))
    if not fits(wide, weights.dtype):
        return f"the weights of the convolution would leave the range of {weights.dtype.name}"
    return folded, wide.astype(weights.dtype)


def _put_in(part: "ir.Graph", found: _Resize, folded: tuple[Folded, ...], weights: "NDArray[Any]") -> None:
    import onnx_ir as ir

    conv, pad = found.conv, found.pad
    windows = [one.window for one in folded]
    amounts = [*(window.before for window in windows), *(window.behind for window in windows)]
    stem = conv.name or conv.outputs[0].name or "conv"
    attributes = {
        "kernel_shape": [window.kernel for window in windows],
        "strides": [window.stride for window in windows],
        "dilations": [window.dilation for window in windows],
        "pads": amounts if pad is None else [0] * len(amounts),
    }
    conv.attributes.pop("auto_pad", None)
    for name, numbers in attributes.items():
        conv.attributes[name] = ir.AttrInt64s(name, numbers)
    conv.replace_input_with(1, new_weight(part, f"{stem}_resizing_weight", weights))
    if pad is None:
        conv.replace_input_with(0, found.resize.inputs[0])
    else:
        half = len(windows)
        places = np.asarray([0, 0, *amounts[:half], 0, 0, *amounts[half:]], np.int64)
        pad.replace_input_with(0, found.resize.inputs[0])
        pad.replace_input_with(1, new_weight(part, f"{stem}_pads", places))
        if len(pad.inputs) > 3:
            pad.resize_inputs(3)  # the axes: all of them now
        pad.outputs[0].shape = None
    part.remove(found.resize, safe=True)


PASS = Pass(
    "resize-into-conv",
    "the resizing of a picture goes into the convolution behind it",
    apply,
    tolerance_db=100.0,
    on_request=True,
)
