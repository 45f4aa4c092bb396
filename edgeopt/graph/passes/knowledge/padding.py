"""How much is padded around a picture, by a Pad or by a convolution itself."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.graph.passes.base import constant

if TYPE_CHECKING:
    import onnx_ir as ir


def spatial_pads(pad: "ir.Node") -> list[int] | str:
    """Begins and ends of the spatial axes, or why it pads more than those."""
    given = constant(pad.inputs[1]) if len(pad.inputs) > 1 else None
    if given is None and "pads" not in pad.attributes:
        return "how much it pads is known only when the model runs"
    amounts = (given if given is not None else np.asarray(pad.attributes["pads"].as_ints())).astype(np.int64)
    if len(pad.inputs) > 3 and pad.inputs[3] is not None:
        axes, shape = constant(pad.inputs[3]), pad.inputs[0].shape if pad.inputs[0] is not None else None
        if axes is None or shape is None:
            return "which axes it pads is known only when the model runs"
        named = amounts.reshape(2, -1)
        amounts = np.zeros((2, len(shape)), np.int64)
        amounts[:, axes.astype(np.int64)] = named
        amounts = amounts.reshape(-1)
    half = len(amounts) // 2
    if (amounts < 0).any() or amounts[:2].any() or amounts[half : half + 2].any():
        return "it pads other axes than those of a picture, or cuts"
    return [int(n) for n in (*amounts[2:half], *amounts[half + 2 :])]


def conv_pads(conv: "ir.Node", sizes: Sequence[int]) -> list[int] | str:
    """Begins and ends of what a convolution with constant weights pads, on a picture of these sides."""
    attributes, rank = conv.attributes, len(sizes)
    chosen, nothing = attributes.get_string("auto_pad", "NOTSET"), [0] * 2 * rank
    if chosen not in {"SAME_UPPER", "SAME_LOWER"}:
        return list(attributes.get_ints("pads", nothing)) if chosen == "NOTSET" else nothing
    weights = constant(conv.inputs[1])
    assert weights is not None  # noqa: S101 - tells mypy
    strides, dilations = (attributes.get_ints(name, [1] * rank) for name in ("strides", "dilations"))
    missing = [
        (-(-size // stride) - 1) * stride + dilation * (kernel - 1) + 1 - size
        for size, kernel, stride, dilation in zip(sizes, weights.shape[2:], strides, dilations, strict=True)
    ]
    if min(missing) < 0:
        return f"runtimes differ in where a kernel smaller than its strides starts (auto_pad = {chosen})"
    smaller, larger = [each // 2 for each in missing], [each - each // 2 for each in missing]
    return [*smaller, *larger] if chosen == "SAME_UPPER" else [*larger, *smaller]
