"""Normalization, and what makes probabilities."""

import numpy as np

from edgeopt.commands.ops.case import Attributes
from edgeopt.commands.ops.references.formula import Array, Arrays, Formula, Inputs, integer, real

_EPSILON = 1e-5


def softmax(x: Array, axis: int) -> Array:
    raised = np.exp(x - x.max(axis=axis, keepdims=True))
    found: Array = raised / raised.sum(axis=axis, keepdims=True)
    return found


def _by_channel(values: Array, like: Array) -> Array:
    return values.reshape(-1, *[1] * (like.ndim - 2))


def _standardized(x: Array, axes: tuple[int, ...], attributes: Attributes) -> Array:
    off = x - x.mean(axis=axes, keepdims=True)
    spread = (off * off).mean(axis=axes, keepdims=True)
    found: Array = off / np.sqrt(spread + real(attributes, "epsilon", _EPSILON))
    return found


def _batch(inputs: Inputs, attributes: Attributes) -> Arrays:
    x = inputs[0]
    scale, shift, mean, variance = (_by_channel(inputs[k], x) for k in range(1, 5))
    return [(x - mean) / np.sqrt(variance + real(attributes, "epsilon", _EPSILON)) * scale + shift]


def _layer(inputs: Inputs, attributes: Attributes) -> Arrays:
    x, shift = inputs[0], inputs.get(2)
    axes = tuple(range(integer(attributes, "axis", -1) % x.ndim, x.ndim))
    made = _standardized(x, axes, attributes) * inputs[1]
    return [made if shift is None else made + shift]


def _instance(inputs: Inputs, attributes: Attributes) -> Arrays:
    x = inputs[0]
    made = _standardized(x, tuple(range(2, x.ndim)), attributes)
    return [made * _by_channel(inputs[1], x) + _by_channel(inputs[2], x)]


def _group(inputs: Inputs, attributes: Attributes) -> Arrays:
    x = inputs[0]
    grouped = x.reshape(x.shape[0], integer(attributes, "num_groups", 1), -1)
    made = _standardized(grouped, (2,), attributes).reshape(x.shape)
    return [made * _by_channel(inputs[1], x) + _by_channel(inputs[2], x)]


def _rms(inputs: Inputs, attributes: Attributes) -> Arrays:
    x = inputs[0]
    axes = tuple(range(integer(attributes, "axis", -1) % x.ndim, x.ndim))
    square = (x * x).mean(axis=axes, keepdims=True)
    return [x / np.sqrt(square + real(attributes, "epsilon", _EPSILON)) * inputs[1]]


FORMULAS: dict[str, Formula] = {
    "BatchNormalization": _batch,
    "LayerNormalization": _layer,
    "InstanceNormalization": _instance,
    "GroupNormalization": _group,
    "RMSNormalization": _rms,
    "Softmax": lambda inputs, attributes: [softmax(inputs[0], integer(attributes, "axis", -1))],
    "LogSoftmax": lambda inputs, attributes: [np.log(softmax(inputs[0], integer(attributes, "axis", -1)))],
}
