"""Element-wise arithmetic with a constant, seen as scale and shift: x * c, x / c, x + c, x - c, c - x, -x."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.graph.passes.base import constant, is_op
from edgeopt.graph.passes.knowledge.linear import FLOATS

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray


LARGEST = 2.0**32
"""Larger factors, and smaller ones than its inverse, make numbers overflow or lose their digits that would not do
so if several factors were multiplied first. What a model answers there is its answer."""


@dataclass(frozen=True, slots=True)
class ScaleAndShift:
    """factor * source + shift, in float64, with the shapes that the constants have."""

    source: "ir.Value"
    factor: "NDArray[Any]"
    shift: "NDArray[Any]"


def step_of(node: "ir.Node | None") -> ScaleAndShift | None:
    """What a node does to the one operand that is not constant; None where it is no such arithmetic.

    Nor is it with factors so large or so small that it matters when they are multiplied.
    """
    step = _step_of(node)
    if step is None:
        return None
    factor = np.abs(step.factor)
    moderate = (factor == 0) | ((factor >= 1 / LARGEST) & (factor <= LARGEST))
    return step if moderate.all() else None


def _step_of(node: "ir.Node | None") -> ScaleAndShift | None:
    if node is None or not is_op(node, "Mul", "Div", "Add", "Sub", "Neg"):
        return None
    one: NDArray[Any] = np.ones(())
    zero: NDArray[Any] = np.zeros(())
    if is_op(node, "Neg"):
        source = node.inputs[0]
        return ScaleAndShift(source, np.negative(one), zero) if source is not None and _is_float(source) else None
    left, right = node.inputs
    first, second = constant(left), constant(right)
    if (first is None) == (second is None):
        return None
    source, number = (left, second) if second is not None else (right, first)
    if source is None or number is None or number.dtype.name not in FLOATS:
        return None
    exact = number.astype(np.float64)
    if is_op(node, "Add"):
        return ScaleAndShift(source, one, exact)
    if is_op(node, "Sub"):
        return ScaleAndShift(source, one, -exact) if second is not None else ScaleAndShift(source, -one, exact)
    if is_op(node, "Mul"):
        return ScaleAndShift(source, exact, zero)
    if second is None or not exact.all():
        return None  # c / x, or a division by zero, which gives infinities that a product would not
    return ScaleAndShift(source, 1.0 / exact, zero)


@dataclass(frozen=True, slots=True)
class Chain:
    """Steps one after another as one: factor * x + shift, and the largest number that is ever added, so scaled."""

    factor: "NDArray[Any]"
    shift: "NDArray[Any]"
    largest: "NDArray[Any]"
    reason: str | None = None
    """Why the chain rounds in other places than the one step would, where that is more than rounding."""


_DIGITS = 64.0
"""A sum that cancels may lose this much of its precision: six bits."""
_REACH = {"float16": 2.0**6}
_USUAL_REACH = 2.0**20


def chained(steps: "Sequence[ScaleAndShift]", dtype: "np.dtype[Any]") -> Chain:
    """The steps as one, in the order in which they are taken, computed in float64."""
    factor, shift, largest = np.ones(()), np.zeros(()), np.zeros(())
    reason, smallest, widest = None, np.ones(()), np.ones(())
    with np.errstate(all="ignore"):  # what does not fit is refused by the caller
        for step in steps:
            moved = shift * step.factor
            if lost(step.shift, moved, dtype):
                reason = "one of its constants would be rounded away beside another"
            factor, shift = factor * step.factor, moved + step.shift
            largest = np.maximum(largest * np.abs(step.factor), np.abs(step.shift))
            smallest, widest = np.minimum(smallest, np.abs(factor)), np.maximum(widest, np.abs(factor))
        if (np.abs(shift) * _DIGITS < largest).any():
            reason = "it adds a value and subtracts it again, and the rounding in between would be lost"
        reach, size = _REACH.get(dtype.name, _USUAL_REACH), np.abs(factor)
        if (widest > np.maximum(size, 1) * reach).any() or (smallest * reach < np.minimum(size, 1)).any():
            reason = "its intermediate values leave the range of its input and output"
    return Chain(factor, shift, largest, reason)


def lost(shift: "NDArray[Any]", beside: "NDArray[Any]", dtype: "np.dtype[Any]") -> bool:
    """Whether a shift vanishes beside a constant, where it would not beside the data, which may be 0."""
    with np.errstate(all="ignore"):
        vanished = (beside + shift).astype(dtype) == beside.astype(dtype)
    return bool((vanished & (shift != 0) & (beside != 0)).any())


def widens(source: "ir.Value", array: "NDArray[Any]") -> bool:
    """Whether arithmetic with a constant may make a tensor bigger than it is, by broadcasting."""
    if array.ndim == 0:
        return False
    shape = source.shape
    if shape is None or array.ndim > len(shape):
        return True
    sizes = list(shape)[len(shape) - array.ndim :]
    return any(have != want for have, want in zip(sizes, array.shape, strict=True) if want != 1)


def _is_float(value: "ir.Value") -> bool:
    return value.dtype is not None and value.dtype.is_floating_point()
