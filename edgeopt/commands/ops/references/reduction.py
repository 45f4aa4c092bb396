"""Reductions."""

from collections.abc import Callable

import numpy as np

from edgeopt.commands.ops.case import Attributes
from edgeopt.commands.ops.references.formula import Array, Arrays, Formula, Inputs, integer


def _reduction(function: Callable[..., Array]) -> Formula:
    def reduce(inputs: Inputs, attributes: Attributes) -> Arrays:
        keep = bool(integer(attributes, "keepdims", 1))
        return [np.asarray(function(inputs[0], axis=inputs.axes(1), keepdims=keep))]

    return reduce


def _length(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    found: Array = np.sqrt((x * x).sum(axis=axis, keepdims=keepdims))
    return found


def _arg_max(inputs: Inputs, attributes: Attributes) -> Arrays:
    keep = bool(integer(attributes, "keepdims", 1))
    return [np.argmax(inputs[0], axis=integer(attributes, "axis", 0), keepdims=keep).astype(np.int64)]


FORMULAS: dict[str, Formula] = {
    "ReduceMean": _reduction(np.mean),
    "ReduceSum": _reduction(np.sum),
    "ReduceMax": _reduction(np.max),
    "ReduceL2": _reduction(_length),
    "ArgMax": _arg_max,
}
