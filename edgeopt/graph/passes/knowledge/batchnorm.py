"""What a BatchNormalization computes when it is not training: scale and shift by channel."""

from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.graph.passes.base import constant
from edgeopt.graph.passes.knowledge.linear import Affine, decimal, integer

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray


def why_not_affine(norm: "ir.Node") -> str | None:
    """Why a batch normalization is more than that, as a sentence, or None."""
    # Before opset 14, more than one output is what says so, read or not.
    if integer(norm, "training_mode", 0) or any(output.name for output in norm.outputs[1:]):
        return "the batch normalization is in training mode: it depends on the data"
    if integer(norm, "spatial", 1) != 1:
        return "the batch normalization has statistics for every pixel (spatial=0)"
    for value in norm.inputs[1:]:
        if value is not None and constant(value) is None:
            return f"'{value.name}' is not constant"
    affine = affine_of(norm)
    if not (np.isfinite(affine.factor).all() and np.isfinite(affine.shift).all()):
        return "its result is not finite, for example because of a variance of zero"
    return None


def affine_of(norm: "ir.Node") -> Affine:
    """f = scale / sqrt(variance + epsilon), s = shift - mean * f."""
    scale, shift, mean, variance = (_float64(value) for value in norm.inputs[1:5])
    with np.errstate(all="ignore"):  # why_not_affine() tells of it
        factor = scale / np.sqrt(variance + decimal(norm, "epsilon", 1e-5))
        return Affine(factor, shift - mean * factor)


def _float64(value: "ir.Value | None") -> "NDArray[Any]":
    array = constant(value)
    assert array is not None, "why_not_affine() has seen to it"  # noqa: S101 - tells mypy; never a user's doing
    return array.astype(np.float64)
