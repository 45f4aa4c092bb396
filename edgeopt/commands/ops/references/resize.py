"""Resizing: along each axis every place of the output is a weighted sum of a few places of the input."""

import numpy as np

from edgeopt.commands.ops.case import Attributes
from edgeopt.commands.ops.references.formula import Array, Arrays, Formula, Inputs, real, word


def _resize(inputs: Inputs, attributes: Attributes) -> Arrays:
    x, scales = inputs[0], inputs.get(2)
    if scales is not None:
        sizes = tuple(int(np.floor(size * scale)) for size, scale in zip(x.shape, scales, strict=True))
        factors = tuple(float(scale) for scale in scales)
    else:
        sizes = inputs.axes(3) or x.shape
        factors = tuple(new / old for new, old in zip(sizes, x.shape, strict=True))
    for axis, (size, factor) in enumerate(zip(sizes, factors, strict=True)):
        if size != x.shape[axis] or factor != 1.0:
            matrix = _weights(x.shape[axis], size, factor, attributes)
            x = np.moveaxis(np.moveaxis(x, axis, -1) @ matrix.T, -1, axis)
    return [x]


def _weights(old: int, new: int, scale: float, attributes: Attributes) -> Array:
    """One row for each place of the output."""
    at = _coordinates(old, new, scale, word(attributes, "coordinate_transformation_mode", "half_pixel"))
    mode = word(attributes, "mode", "nearest")
    matrix = np.zeros((new, old))
    rows = np.arange(new)
    if mode == "nearest":
        rounded = _nearest(at, word(attributes, "nearest_mode", "round_prefer_floor"))
        matrix[rows, np.clip(rounded, 0, old - 1)] = 1.0
        return matrix
    base = np.floor(at).astype(np.int64)
    off = at - base
    between = _cubic(off, real(attributes, "cubic_coeff_a", -0.75)) if mode == "cubic" else _linear(off)
    for step, weight in between:
        np.add.at(matrix, (rows, np.clip(base + step, 0, old - 1)), weight)
    return matrix


def _coordinates(old: int, new: int, scale: float, mode: str) -> Array:
    places = np.arange(new, dtype=np.float64)
    if mode == "asymmetric":
        return places / scale
    if mode == "align_corners":
        return places * (old - 1) / (new - 1) if new > 1 else np.zeros(new)
    if mode == "pytorch_half_pixel" and new == 1:
        return np.zeros(1)
    return (places + 0.5) / scale - 0.5


def _nearest(at: Array, mode: str) -> Array:
    if mode == "floor":
        return np.floor(at).astype(np.int64)
    if mode == "ceil":
        return np.ceil(at).astype(np.int64)
    return np.ceil(at - 0.5).astype(np.int64)  # round_prefer_floor


def _linear(off: Array) -> tuple[tuple[int, Array], ...]:
    return ((0, 1 - off), (1, off))


def _cubic(off: Array, a: float) -> tuple[tuple[int, Array], ...]:
    """Keys' kernel: the inner two and the outer two of four neighbours."""

    def inner(d: Array) -> Array:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def outer(d: Array) -> Array:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return ((-1, outer(1 + off)), (0, inner(off)), (1, inner(1 - off)), (2, outer(2 - off)))


FORMULAS: dict[str, Formula] = {"Resize": _resize}
