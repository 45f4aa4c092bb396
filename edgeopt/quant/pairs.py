"""Sums of pairs of eight-bit products as VPMADDUBSW makes them: in 16 bits, cut off at their ends.

The instruction multiplies unsigned by signed bytes and adds two neighbours; what does not fit is lost, and nothing
tells. Runtimes take neighbours along what a product adds up: the inputs of a matrix product, and the channels at
one place of a convolution's window. Where these are odd in number, ONNX Runtime pairs the last one with the first
of the next place, as is done here, and OpenVINO with nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from edgeopt.backends.base import Array

LOW, HIGH = -(1 << 15), (1 << 15) - 1
_LARGEST_BYTE = 255
# Sums in memory at a time.
_CHUNK = 1 << 20
# Rows next to each other are alike, so few of their pairs can overflow; all others need no look.
_ROWS = 256


@dataclass(frozen=True, slots=True)
class Lost:
    """What a product loses by pairs that are cut off."""

    excess: Array
    """What was cut off, in the units of the integers' product, to be taken off it; [rows, outputs]."""
    cut: int
    """How many sums of pairs were cut off."""
    sums: int
    """Of how many."""


def can_overflow(weight: Array) -> bool:
    """Whether some pair of these weights [inputs, outputs] overflows with the largest activations."""
    first, second = _pairs_of(weight.astype(np.int32))
    peak = np.maximum(first, 0) + np.maximum(second, 0)
    trough = np.minimum(first, 0) + np.minimum(second, 0)
    return bool(peak.size) and bool((_LARGEST_BYTE * max(peak.max(), -trough.min())) > HIGH)


def lost_by(rows: Array, weight: Array) -> Lost:
    """For unsigned bytes [rows, inputs] and signed weights [inputs, outputs]."""
    weights = [np.ascontiguousarray(each.T) for each in _pairs_of(weight.astype(np.int32))]
    factors = _pairs_of(np.ascontiguousarray(rows.T))
    excess = np.zeros((weight.shape[1], len(rows)), np.float32)
    cut = 0
    for begin in range(0, len(rows), _ROWS):
        part = slice(begin, begin + _ROWS)
        cut += _take(factors[0][:, part], factors[1][:, part], weights[0], weights[1], excess[:, part])
    return Lost(excess.T, cut, len(rows) * weights[0].size)


def _take(first: Array, second: Array, first_weight: Array, second_weight: Array, excess: Array) -> int:
    """Adds to the excess of some rows, and counts."""
    outputs, pairs = _suspects(first.max(axis=1), second.max(axis=1), first_weight, second_weight)
    cut, step = 0, max(1, _CHUNK // max(1, first.shape[1]))
    for begin in range(0, len(outputs), step):
        output, pair = outputs[begin : begin + step], pairs[begin : begin + step]
        totals = first[pair] * first_weight[output, pair, None] + second[pair] * second_weight[output, pair, None]
        over = totals - np.clip(totals, LOW, HIGH)
        cut += int(np.count_nonzero(over))
        starts = np.flatnonzero(np.r_[True, output[1:] != output[:-1]])
        excess[output[starts]] += np.add.reduceat(over, starts, axis=0)
    return cut


def windows(
    images: Array,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
    zero: int,
) -> tuple[Array, tuple[int, ...]]:
    """What a convolution sees, [places, window x channels], channels next to each other; and the sizes of its
    result. `images` are unsigned bytes [channels, ...]."""
    rank = len(kernel)
    around = [(0, 0), *((pads[k], pads[k + rank]) for k in range(rank))]
    padded = np.moveaxis(np.pad(images, around, constant_values=zero), 0, -1)
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    sizes = tuple((padded.shape[k] - reach[k]) // strides[k] + 1 for k in range(rank))
    seen = np.empty((*sizes, prod(kernel), images.shape[0]), np.uint8)
    for place, offset in enumerate(np.ndindex(*kernel)):
        part = tuple(
            slice(offset[k] * dilations[k], offset[k] * dilations[k] + (sizes[k] - 1) * strides[k] + 1, strides[k])
            for k in range(rank)
        )
        seen[..., place, :] = padded[part]
    return seen.reshape(prod(sizes), -1), sizes


def as_rows(weight: Array) -> Array:
    """The weights of a convolution [outputs, channels, ...] as a matrix for `windows`."""
    return np.moveaxis(weight, 1, -1).reshape(len(weight), -1).T


def _pairs_of(array: Array) -> tuple[Array, Array]:
    """The first and second of each pair along the first axis, the last one of an odd number with a zero."""
    if len(array) % 2:
        array = np.concatenate([array, np.zeros((1, *array.shape[1:]), array.dtype)])
    wide = array.astype(np.int32, copy=False)
    return wide[0::2], wide[1::2]


def _suspects(first: Array, second: Array, first_weight: Array, second_weight: Array) -> tuple[Array, Array]:
    """Outputs and pairs that may overflow, by the largest activation of each input; outputs in their order."""
    peaks = first * np.maximum(first_weight, 0) + second * np.maximum(second_weight, 0)
    troughs = first * np.minimum(first_weight, 0) + second * np.minimum(second_weight, 0)
    outputs, pairs = np.nonzero((peaks > HIGH) | (troughs < LOW))
    return outputs, pairs
