"""Counts of a tensor's values in bins of equal width, and what quantizing them would lose."""

import math
from dataclasses import dataclass

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.quant.records import Range

BINS = 2048
"""From the negative to the positive reach: for values of one sign, four bins for each step of eight bits."""
LEVELS = 256
# Values at a time: they stay in a core's cache from the multiplication to the count.
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class Histogram:
    """From `-reach` to `reach`, which no value lies beyond; zero is the border between the two middle bins."""

    counts: Array
    reach: float

    @property
    def edges(self) -> Array:
        return np.linspace(-self.reach, self.reach, len(self.counts) + 1)

    @property
    def centres(self) -> Array:
        return (np.arange(len(self.counts)) + 0.5) * self.width - self.reach

    @property
    def width(self) -> float:
        return 2 * self.reach / len(self.counts)


def empty(reach: float, bins: int = BINS) -> Histogram:
    return Histogram(np.zeros(bins, np.int64), reach)


def count(histogram: Histogram, values: Array) -> None:
    """Adds values to the counts; what lies beyond the reach counts in the outermost bin."""
    bins = len(histogram.counts)
    scale, middle = np.float32(bins / (2 * histogram.reach)), np.float32(bins / 2)
    flat = values.reshape(-1)
    if flat.dtype != np.float32:
        flat = flat.astype(np.float32)
    buffer = np.empty(min(_BLOCK, flat.size), np.float32)
    found = np.zeros(bins + 1, np.int64)
    for first in range(0, flat.size, _BLOCK):
        block = flat[first : first + _BLOCK]
        place = buffer[: block.size]
        np.multiply(block, scale, out=place)
        place += middle
        np.clip(place, 0, bins, out=place)
        found += np.bincount(place.astype(np.int64), minlength=bins + 1)
    found[bins - 1] += found[bins]  # the last bin has both its ends
    histogram.counts[:] += found[:bins]


def outside_share(histogram: Histogram, kept: Range) -> float:
    """The share of the values that a range cuts off."""
    centres, total = histogram.centres, histogram.counts.sum()
    beyond = (centres < kept.low - histogram.width / 2) | (centres > kept.high + histogram.width / 2)
    return float(histogram.counts[beyond].sum() / total) if total else 0.0


def noise_db(histogram: Histogram, kept: Range, levels: int = LEVELS) -> float:
    """The signal-to-noise ratio that quantizing to a range would leave, from the middles of the bins."""
    noise = squared_errors(histogram, np.array([kept.low]), np.array([kept.high]), levels)[0]
    return _decibels((histogram.counts * histogram.centres**2).sum(), noise)


def _decibels(signal: float, noise: float) -> float:
    if signal <= 0 or noise <= 0:
        return math.inf
    return 10 * math.log10(signal / noise)


def squared_errors(histogram: Histogram, lows: Array, highs: Array, levels: int = LEVELS) -> Array:
    """For each of several ranges, the sum of squared errors of the values quantized to it; each contains 0."""
    used = np.flatnonzero(histogram.counts)
    centres, counts = histogram.centres[used], histogram.counts[used].astype(np.float64)
    step = (highs - lows)[:, None] / (levels - 1)
    zero = np.rint(-lows[:, None] / step)
    quantized = np.clip(np.rint(centres / step) + zero, 0, levels - 1)
    error = (quantized - zero) * step - centres
    # The values of a bin differ from its middle, by which they are judged here.
    within = np.minimum(histogram.width, step) ** 2 / 12
    return np.asarray((error**2 * counts).sum(axis=1) + (within * counts).sum(axis=1))
