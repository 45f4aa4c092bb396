"""The values that a number of few bits can hold: scale, zero point, type; and rounding to them, in numpy."""

from dataclasses import dataclass

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.quant.records import Range

_TYPES: dict[str, type[np.uint8 | np.int8 | np.uint16 | np.int16]] = {
    "uint8": np.uint8,
    "int8": np.int8,
    "uint16": np.uint16,
    "int16": np.int16,
}
# The smallest scale; some models' numbers are that small, and its reciprocal still is a float32 number.
_SMALLEST = 1e-36


@dataclass(frozen=True, slots=True)
class Steps:
    """A tensor with one scale: value = (integer - zero) * scale."""

    scale: np.float32
    zero: int
    kind: str

    @property
    def type(self) -> type[np.uint8 | np.int8 | np.uint16 | np.int16]:
        return _TYPES[self.kind]

    def zero_point(self) -> Array:
        return np.asarray(self.zero, self.type)

    def rounded(self, array: Array) -> Array:
        """The integers for these floats."""
        limits = np.iinfo(self.type)
        integers: Array = np.rint(array / self.scale) + self.zero
        return np.clip(integers, limits.min, limits.max).astype(self.type)

    def fake(self, array: Array) -> Array:
        """The floats that those integers stand for."""
        return ((self.rounded(array).astype(np.int32) - self.zero) * self.scale).astype(np.float32)


def activation_steps(kept: Range, kind: str, symmetric: bool) -> Steps:
    """Steps that hold a range, and zero without an error."""
    limits = np.iinfo(_TYPES[kind])
    low, high = min(kept.low, 0.0), max(kept.high, 0.0)
    if symmetric:
        middle = 0 if limits.min < 0 else (limits.max + 1) // 2
        scale = max(-low, high) / (limits.max - middle)
        return Steps(np.float32(max(scale, _SMALLEST)), middle, kind)
    scale = max((high - low) / (int(limits.max) - int(limits.min)), _SMALLEST)
    return Steps(np.float32(scale), int(np.clip(np.rint(limits.min - low / scale), limits.min, limits.max)), kind)


def weight_scales(weight: Array, axis: int | None, largest: int) -> Array:
    """Symmetric: one scale, or one for each channel."""
    peaks = np.abs(weight)
    rest = tuple(k for k in range(weight.ndim) if k != axis) if axis is not None else None
    scales = np.asarray(peaks.max(axis=rest) if weight.size else np.zeros(()), np.float32) / np.float32(largest)
    return np.where(scales < _SMALLEST, np.float32(1), scales).astype(np.float32)


def along(scales: Array, axis: int | None, rank: int) -> Array:
    """Scales in the shape in which they multiply with the weights."""
    if axis is None or scales.ndim == 0:
        return scales
    shape = [1] * rank
    shape[axis] = -1
    return scales.reshape(shape)


def rounded_weight(weight: Array, scales: Array, axis: int | None, largest: int) -> Array:
    integers: Array = np.rint(weight / along(scales, axis, weight.ndim))
    return np.clip(integers, -largest, largest).astype(np.int8)
