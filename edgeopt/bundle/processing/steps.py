"""What the declared steps after a model do, in numpy, and what they make of a tensor's type and shape."""

from collections.abc import Mapping, Sequence

import numpy as np

from edgeopt.backends.base import Array, TensorInfo
from edgeopt.bundle.processing.schema import (
    Argmax,
    Dequantize,
    Scale,
    Sigmoid,
    Softmax,
    Step,
    Threshold,
    TopK,
)
from edgeopt.errors import DataError


def apply(steps: Sequence[Step], tensors: Mapping[str, Array]) -> dict[str, Array]:
    """All of them in their order; what none of them takes is handed on."""
    held = dict(tensors)
    for step in steps:
        if step.on not in held:
            raise DataError(f"A step reads '{step.on}', which does not exist.", f"There are: {', '.join(held)}.")
        held |= _done(step, held.pop(step.on))
    return held


def described(step: Step, tensor: TensorInfo) -> tuple[TensorInfo, ...]:
    """What it gives; ValueError with a sentence where it cannot take that."""
    if tensor.dtype == "str":
        raise ValueError("it holds strings")
    shape, dtype, known = tensor.shape, tensor.dtype, tensor.rank_known
    if isinstance(step, Softmax | Argmax | TopK) and known and not -len(shape) <= step.axis < len(shape):
        raise ValueError(f"it has no axis {step.axis}")
    if isinstance(step, TopK):
        if known:
            size = shape[step.axis]
            if isinstance(size, int) and size < step.k:
                raise ValueError(f"its axis {step.axis} has {size} values, fewer than {step.k}")
            shape = tuple(step.k if k == step.axis % len(shape) else dim for k, dim in enumerate(shape))
        places = TensorInfo(step.gives_places, "int64", shape, known)
        return TensorInfo(step.gives, dtype, shape, known), places
    if isinstance(step, Argmax):
        rest = tuple(dim for k, dim in enumerate(shape) if k != step.axis % max(1, len(shape)))
        return (TensorInfo(step.gives, "int64", rest, known),)
    if isinstance(step, Threshold):
        dtype = "uint8"
    elif isinstance(step, Softmax | Sigmoid | Scale | Dequantize):
        dtype = "float64" if dtype == "float64" else "float32"
    return (TensorInfo(step.gives, dtype, shape, known),)


def _done(step: Step, values: Array) -> dict[str, Array]:
    if isinstance(step, TopK):
        # A stable order of the negated: of equal values the first comes first.
        order = np.argsort(-_floats(values), axis=step.axis, kind="stable")
        places = np.take(order, range(step.k), axis=step.axis)
        return {step.gives: np.take_along_axis(values, places, step.axis), step.gives_places: places}
    return {step.gives: _one(step, values)}


def _one(step: Step, values: Array) -> Array:
    if isinstance(step, Softmax):
        floats = _floats(values)
        powers = np.exp(floats - floats.max(axis=step.axis, keepdims=True))
        return np.asarray(powers / powers.sum(axis=step.axis, keepdims=True))
    if isinstance(step, Sigmoid):
        # By the hyperbolic tangent, which no value is too large for.
        floats = _floats(values)
        return np.asarray(0.5 * np.tanh(0.5 * floats) + 0.5, floats.dtype)
    if isinstance(step, Argmax):
        return np.asarray(values.argmax(axis=step.axis), np.int64)
    if isinstance(step, Threshold):
        return np.asarray(values > step.above, np.uint8)
    if isinstance(step, Scale):
        floats = _floats(values)
        return np.asarray(floats * step.factor + step.offset, floats.dtype)
    if isinstance(step, Dequantize):
        floats = _floats(values)
        return np.asarray((floats - step.zero_point) * step.scale, floats.dtype)
    return values


def _floats(values: Array) -> Array:
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float32)
