"""Operators on eight-bit numbers; each rounds half to even and cuts off what does not fit."""

import numpy as np

from edgeopt.commands.ops.case import Attributes
from edgeopt.commands.ops.references.formula import Array, Arrays, Formula, Inputs
from edgeopt.commands.ops.references.windows import convolve


def quantize(x: Array, scale: Array | float, zero: Array) -> Array:
    limits = np.iinfo(zero.dtype)
    rounded = np.rint(x / scale) + zero.astype(np.float64)
    found: Array = np.clip(rounded, limits.min, limits.max).astype(zero.dtype)
    return found


def dequantize(x: Array, scale: Array | float, zero: Array | int) -> Array:
    found: Array = (x.astype(np.float64) - np.asarray(zero, np.float64)) * scale
    return found


def _quantize_linear(inputs: Inputs, _: Attributes) -> Arrays:
    return [quantize(inputs[0], inputs[1], inputs[2])]


def _dequantize_linear(inputs: Inputs, _: Attributes) -> Arrays:
    return [dequantize(inputs[0], inputs[1], inputs[2]).astype(np.float32)]


def _dynamic_quantize(inputs: Inputs, _: Attributes) -> Arrays:
    """The range always holds zero, which is one of the 256 steps."""
    x = inputs[0]
    low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    scale = (high - low) / 255
    zero = np.clip(np.rint(-low / scale), 0, 255).astype(np.uint8)
    return [quantize(x, scale, zero), np.asarray(scale, np.float32), np.asarray(zero)]


def _matmul_integer(inputs: Inputs, _: Attributes) -> Arrays:
    left = dequantize(inputs[0], 1.0, inputs[2])
    return [(left @ inputs[1].astype(np.float64)).astype(np.int32)]


def _conv_integer(inputs: Inputs, attributes: Attributes) -> Arrays:
    left = dequantize(inputs[0], 1.0, inputs[2])
    return [convolve(left, inputs[1].astype(np.float64), attributes).astype(np.int32)]


def _qlinear_matmul(inputs: Inputs, _: Attributes) -> Arrays:
    left, right = (dequantize(inputs[k], inputs[k + 1], inputs[k + 2]) for k in (0, 3))
    return [quantize(left @ right, inputs[6], inputs[7])]


def _qlinear_conv(inputs: Inputs, attributes: Attributes) -> Arrays:
    left, right = (dequantize(inputs[k], inputs[k + 1], inputs[k + 2]) for k in (0, 3))
    return [quantize(convolve(left, right, attributes), inputs[6], inputs[7])]


FORMULAS: dict[str, Formula] = {
    "QuantizeLinear": _quantize_linear,
    "DequantizeLinear": _dequantize_linear,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "MatMulInteger": _matmul_integer,
    "ConvInteger": _conv_integer,
    "QLinearMatMul": _qlinear_matmul,
    "QLinearConv": _qlinear_conv,
}
