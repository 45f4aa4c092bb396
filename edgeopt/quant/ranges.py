"""Ranges of activations: the statistics that calibration collects, and the methods that find ranges."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.errors import UsageError
from edgeopt.quant.records import QuantSettings, Range

BINS = 2048
"""The number of bins over both signs; values of one sign get four bins for each step of eight bits."""
LEVELS = 256
# The number of values per block, so that a block stays in a core's cache from the multiplication to the count.
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of values in bins from `-reach` to `reach`; zero is the border between the two middle bins."""

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
    """Adds values to the counts; values beyond the reach count in the outermost bin."""
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
    """Returns the share of the values that are outside a range."""
    centres, total = histogram.centres, histogram.counts.sum()
    beyond = (centres < kept.low - histogram.width / 2) | (centres > kept.high + histogram.width / 2)
    return float(histogram.counts[beyond].sum() / total) if total else 0.0


def noise_db(histogram: Histogram, kept: Range, levels: int = LEVELS) -> float:
    """Returns the signal-to-noise ratio in dB after quantization to a range, from the centres of the bins."""
    noise = squared_errors(histogram, np.array([kept.low]), np.array([kept.high]), levels)[0]
    return _decibels((histogram.counts * histogram.centres**2).sum(), noise)


def _decibels(signal: float, noise: float) -> float:
    if signal <= 0 or noise <= 0:
        return math.inf
    return 10 * math.log10(signal / noise)


def squared_errors(histogram: Histogram, lows: Array, highs: Array, levels: int = LEVELS) -> Array:
    """Returns the sum of squared errors of the values quantized to each of these ranges, which contain 0."""
    used = np.flatnonzero(histogram.counts)
    centres, counts = histogram.centres[used], histogram.counts[used].astype(np.float64)
    step = (highs - lows)[:, None] / (levels - 1)
    zero = np.rint(-lows[:, None] / step)
    quantized = np.clip(np.rint(centres / step) + zero, 0, levels - 1)
    error = (quantized - zero) * step - centres
    # The expected squared distance of a value from the centre of its bin, which stands for it here.
    within = np.minimum(histogram.width, step) ** 2 / 12
    return np.asarray((error**2 * counts).sum(axis=1) + (within * counts).sum(axis=1))


# Below this, float32 cannot represent a scale of 255 steps, or its inverse, in full precision.
_SMALLEST_SPAN = 1e-30


@dataclass(frozen=True, slots=True)
class ObservedRange:
    """Statistics of a tensor's values on the samples."""

    tensor: str
    lows: Array
    """The lowest finite value of each sample, as float64."""
    highs: Array
    histogram: Histogram | None = None
    """Histogram over all samples; None if no method requires it, or all values are 0."""
    channel_axis: int | None = None
    channel_lows: Array | None = None
    """The lowest value of each channel over all samples; None if samples differ in their number of channels."""
    channel_highs: Array | None = None
    not_finite: tuple[int, ...] = ()
    """Indices of the samples on which the tensor held NaN or infinity."""
    elements: int = 0
    """The number of elements in the first sample."""

    @property
    def low(self) -> float:
        return float(self.lows.min()) if len(self.lows) else 0.0

    @property
    def high(self) -> float:
        return float(self.highs.max()) if len(self.highs) else 0.0

    @property
    def reach(self) -> float:
        """The largest absolute value."""
        return max(-self.low, self.high, 0.0)


@dataclass(frozen=True, slots=True)
class Method:
    """One method to find ranges; `find` may return a range without 0, which `range_of` then includes."""

    name: str
    title: str
    needs_histogram: bool
    find: Callable[[ObservedRange, QuantSettings], Range]


def counted(seen: ObservedRange) -> Histogram:
    if seen.histogram is None:
        raise ValueError(f"'{seen.tensor}' was seen without a histogram")
    return seen.histogram


def range_of(method: Method, seen: ObservedRange, settings: QuantSettings) -> Range:
    """Returns the range of a tensor by a method; it contains 0, and is finite and never empty."""
    if method.needs_histogram and seen.histogram is None:
        return usable(Range(seen.low, seen.high), settings)
    return usable(method.find(seen, settings), settings)


def usable(found: Range, settings: QuantSettings) -> Range:
    """Returns the range extended to 0, symmetric if the settings ask for it; an empty range becomes 0 to 1."""
    low, high = min(found.low, 0.0) + 0.0, max(found.high, 0.0)  # -0.0 + 0.0 is 0.0
    if not (math.isfinite(low) and math.isfinite(high)) or high - low < _SMALLEST_SPAN:
        low, high = 0.0, 1.0
    if settings.symmetric_activations:
        return Range(-max(-low, high), max(-low, high))
    return Range(low, high)


def minmax_range(seen: ObservedRange, _settings: QuantSettings) -> Range:
    return Range(seen.low, seen.high)


MINMAX = Method("minmax", "from the lowest to the highest value", needs_histogram=False, find=minmax_range)


def moving_average_range(seen: ObservedRange, _settings: QuantSettings) -> Range:
    """Returns the mean of the samples' extremes, as onnxruntime's `CalibMovingAverage` does."""
    return Range(float(seen.lows.mean()), float(seen.highs.mean()))


MOVING_AVERAGE = Method(
    "moving-average",
    "the average of the samples' lowest and highest values",
    needs_histogram=False,
    find=moving_average_range,
)


def percentile_range(seen: ObservedRange, settings: QuantSettings) -> Range:
    histogram = counted(seen)
    cut = (100 - settings.percentile) / 100
    if settings.symmetric_activations:
        folded = _folded(histogram)
        edge = int(np.searchsorted(np.cumsum(folded), (1 - cut) * folded.sum())) + 1
        reach = min(edge * histogram.width, seen.reach)
        return Range(-reach, reach)
    shares = np.cumsum(histogram.counts) / histogram.counts.sum()
    edges = histogram.edges
    low = edges[np.searchsorted(shares, cut / 2, side="right")]
    high = edges[min(int(np.searchsorted(shares, 1 - cut / 2)) + 1, len(edges) - 1)]
    return Range(max(float(low), seen.low), min(float(high), seen.high))


def _folded(histogram: Histogram) -> Array:
    """Returns counts of absolute values, from zero outwards."""
    half = len(histogram.counts) // 2
    return np.asarray(histogram.counts[half:] + histogram.counts[:half][::-1])


PERCENTILE = Method(
    "percentile", "all but a small share of the values", needs_histogram=True, find=percentile_range
)


# Each candidate is 4 % smaller than the one before, down to a thirtieth; the error is flat around its minimum.
_SHARES = 0.96 ** np.arange(84)
_TURNS = 2


def mse_range(seen: ObservedRange, settings: QuantSettings) -> Range:
    histogram = counted(seen)
    low, high = min(seen.low, 0.0), max(seen.high, 0.0)
    if settings.symmetric_activations:
        reach = max(-low, high) * _SHARES
        best = reach[np.argmin(squared_errors(histogram, -reach, reach))]
        return Range(-float(best), float(best))
    if low == 0 or high == 0:
        return _shrunk(histogram, low, high, sides=(low == 0,))
    return _shrunk(histogram, low, high, sides=(True, False) * _TURNS)


def _shrunk(histogram: Histogram, low: float, high: float, sides: tuple[bool, ...]) -> Range:
    """Moves one end after the other to where the error is least; True in `sides` is the upper end."""
    whole_low, whole_high = low, high
    for upper in sides:
        lows = np.full(len(_SHARES), low) if upper else whole_low * _SHARES
        highs = whole_high * _SHARES if upper else np.full(len(_SHARES), high)
        best = int(np.argmin(squared_errors(histogram, lows, highs)))
        low, high = float(lows[best]), float(highs[best])
    return Range(low, high)


MSE = Method("mse", "least squared error of what is rounded and cut off", needs_histogram=True, find=mse_range)


# The mean absolute deviation over the standard deviation is 0.80 for a normal and 0.71 for a Laplace distribution.
_BETWEEN = (math.sqrt(2 / math.pi) + math.sqrt(0.5)) / 2


def distribution_range(seen: ObservedRange, settings: QuantSettings) -> Range:
    """Returns the range with the least error if the values followed the normal or the Laplace distribution that
    fits them.

    After "Post training 4-bit quantization of convolutional networks for rapid-deployment" (Banner and others,
    2019): each distribution has one best multiple of its width, so that the sparse tails of few samples do not
    matter. Each side of 0 is half a distribution, and has steps in proportion to its share of the range.
    """
    histogram = counted(seen)
    below, above = (_deviation(histogram, side) for side in (-1, 1))
    low, high = _extent(below, LEVELS), _extent(above, LEVELS)
    if settings.symmetric_activations or low + high == 0:
        return Range(-max(low, high), max(low, high))
    shares = low / (low + high), high / (low + high)
    low, high = (_extent(b, 2 * LEVELS * s) for b, s in zip((below, above), shares, strict=True))
    return Range(max(-low, seen.low), min(high, seen.high))


def _deviation(histogram: Histogram, side: int) -> tuple[float, float]:
    """Returns the mean and the root mean square of one side, without the bins next to 0, which clipping fills."""
    values = histogram.centres * side
    counts = histogram.counts * (values > histogram.width)
    total = max(float(counts.sum()), 1.0)
    return float((values * counts).sum()) / total, math.sqrt(float((values**2 * counts).sum()) / total)


def _extent(deviation: tuple[float, float], levels: float) -> float:
    """Returns the end of the best range of one side."""
    mean, root = deviation
    if root == 0:
        return 0.0
    steps = max(round(levels), 2)
    return root * _bell_multiple(steps) if mean / root > _BETWEEN else mean * _laplace_multiple(steps)


@cache
def _laplace_multiple(levels: int) -> float:
    """Returns the multiple `a` at which the derivative of 2 e^-a + a^2 / (3 levels^2) is 0."""
    multiple = 10.0
    for _ in range(50):
        multiple = math.log(3 * levels**2 / multiple)
    return multiple


@cache
def _bell_multiple(levels: int) -> float:
    """Returns the `a` that minimizes (a^2 + 1) erfc(a / sqrt 2) - a sqrt(2 / pi) e^(-a^2 / 2) + a^2 / (3
    levels^2)."""

    def error(a: float) -> float:
        cut_off = (a * a + 1) * math.erfc(a / math.sqrt(2)) - a * math.sqrt(2 / math.pi) * math.exp(-a * a / 2)
        return cut_off + a * a / (3 * levels**2)

    return min((k / 100 for k in range(100, 800)), key=error)


DISTRIBUTION = Method(
    "distribution",
    "the best range of the curve that fits the values",
    needs_histogram=True,
    find=distribution_range,
)


STEPS = 128
_SMOOTHED = 1e-4
# The number of candidates per batch, whose running sums take some megabytes.
_AT_ONCE = 512


def entropy_range(seen: ObservedRange, _settings: QuantSettings) -> Range:
    """Returns the range with the least Kullback-Leibler divergence between the values and their distribution in
    few steps.

    The measure is that of onnxruntime (after TensorRT), with its smoothing and its treatment of the bins that are
    left over when the range is divided into steps, but for all candidates at once, from running sums. If two
    candidates differ by less than the precision of float32, in which onnxruntime computes, it may choose the
    other.
    """
    histogram = counted(seen)
    counts, edges = histogram.counts, histogram.edges
    middle = len(counts) // 2
    if middle < STEPS // 2:
        return Range(seen.low, seen.high)
    halves = np.arange(STEPS // 2, middle + 1)
    parts = np.array_split(halves, -(-len(halves) // _AT_ONCE))
    divergences = np.concatenate([divergence(counts, part) for part in parts])
    if divergences.min() == np.inf:  # so few values that no candidate can be told from another
        return Range(seen.low, seen.high)
    best = int(halves[int(np.argmin(divergences))])
    low, high = edges[middle - best], edges[min(middle + best + 1, len(counts))]
    return Range(max(float(low), seen.low), min(float(high), seen.high))


def divergence(counts: Array, halves: Array) -> Array:
    """Returns the divergence between the distribution clipped at these bins (with the rest in the outermost bins)
    and the same in STEPS steps; infinite if either is empty."""
    bins, middle = len(counts), len(counts) // 2
    first = middle - halves
    last = np.minimum(middle + halves + 1, bins)
    size = last - first
    merged = size // STEPS
    sums, filled = _running(counts), _running(counts != 0)
    left, right, total = sums[first], sums[-1] - sums[last], sums[-1]
    leftover = size - merged * STEPS

    # Clipped values fill the outermost bins if these were empty.
    fills_first = ((counts[first] == 0) & (left > 0)).astype(np.float64)
    fills_last = ((counts[last - 1] == 0) & (right > 0)).astype(np.float64)
    borders = first[:, None] + merged[:, None] * np.arange(STEPS + 1)
    held = np.diff(sums[borders], axis=1)
    used = np.diff(filled[borders], axis=1)
    used[:, 0] += fills_first
    used[:, -1] += np.where(leftover == 0, fills_last, 0)
    stepped = held.copy()
    stepped[:, -1] += sums[last] - sums[borders[:, -1]]
    level = np.floor(np.divide(stepped, used, out=np.zeros_like(stepped), where=used > 0))

    filled_bins = filled[last] - filled[first] + fills_first + fills_last
    level_bins = (merged[:, None] * (level > 0)).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        off = _SMOOTHED * (size - filled_bins) / filled_bins
        off_level = _SMOOTHED * (size - level_bins) / level_bins
        # For the clipped distribution: the smoothed sum of each step, and the rest.
        held[:, 0] += left
        held[:, -1] += np.where(leftover == 0, right, 0)
        in_step = held - off[:, None] * used + _SMOOTHED * (merged[:, None] - used)
        logarithm = np.log(np.where(level > 0, level - off_level[:, None], _SMOOTHED))
        cross = (in_step * logarithm).sum(axis=1) + (total - in_step.sum(axis=1)) * np.log(_SMOOTHED)
        own = _own(counts, first, last, left, right, off) + (size - filled_bins) * _SMOOTHED * np.log(_SMOOTHED)
        found = (own - cross) / total - np.log(total) + np.log((level * merged[:, None]).sum(axis=1))
    return np.where(np.isfinite(found) & (filled_bins > 0) & (level_bins > 0), found, np.inf)


def _own(counts: Array, first: Array, last: Array, left: Array, right: Array, off: Array) -> Array:
    """Returns the sum of p log p over the filled bins, each lowered by `off`: to second order, ends exact."""
    with np.errstate(divide="ignore"):
        logarithm = np.where(counts > 0, np.log(np.maximum(counts, 1)), 0.0)
        inverse = np.where(counts > 0, 1.0 / np.maximum(counts, 1), 0.0)
    plain, slope, bend = _running(counts * logarithm), _running((logarithm + 1) * (counts > 0)), _running(inverse)
    inner, outer = first + 1, last - 1
    within = (
        (plain[outer] - plain[inner])
        - off * (slope[outer] - slope[inner])
        + off**2 / 2 * (bend[outer] - bend[inner])
    )
    ends = [counts[first] + left, counts[last - 1] + right]
    return np.asarray(within + sum(_lowered(end, off) for end in ends))


def _lowered(held: Array, off: Array) -> Array:
    lowered = np.where(held > 0, held - off, 1.0)
    return np.asarray(lowered * np.log(lowered))


def _running(values: Array) -> Array:
    return np.concatenate(([0.0], np.cumsum(values, dtype=np.float64)))


ENTROPY = Method(
    "entropy", "least divergence between the values and their steps", needs_histogram=True, find=entropy_range
)


METHODS: tuple[Method, ...] = (MINMAX, MOVING_AVERAGE, PERCENTILE, ENTROPY, MSE, DISTRIBUTION)

__all__ = ["METHODS", "Method", "ObservedRange", "method_named", "range_of", "usable"]


def method_named(name: str) -> Method:
    for method in METHODS:
        if method.name == name:
            return method
    raise UsageError(
        f"There is no calibration named '{name}'.", f"Available: {', '.join(m.name for m in METHODS)}."
    )
