"""The range whose values, in few steps, are distributed most like all: least Kullback-Leibler divergence.

The same measure as onnxruntime's (after TensorRT's), with its smoothing and its treatment of the bins that are
left over when the range is divided into steps; for all candidates at once, from running sums. Where two candidates
differ by less than float32 tells apart, in which onnxruntime computes, it may choose the other.
"""

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.quant.ranges.base import Method, Seen, counted
from edgeopt.quant.records import Range
from edgeopt.quant.settings import QuantSettings

STEPS = 128
_SMOOTHED = 1e-4
# Candidates at a time: some megabytes of running sums.
_AT_ONCE = 512


def find(seen: Seen, _settings: QuantSettings) -> Range:
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
    """The divergence between the distribution clipped at these bins (the rest in its outermost bins) and the
    same in STEPS steps; infinite where one of them holds nothing."""
    bins, middle = len(counts), len(counts) // 2
    first = middle - halves
    last = np.minimum(middle + halves + 1, bins)
    size = last - first
    merged = size // STEPS
    sums, filled = _running(counts), _running(counts != 0)
    left, right, total = sums[first], sums[-1] - sums[last], sums[-1]
    leftover = size - merged * STEPS

    # What is beyond fills the outermost bins where they were empty.
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
        # Of the cut distribution: what each step holds, smoothed, and what is left over.
        held[:, 0] += left
        held[:, -1] += np.where(leftover == 0, right, 0)
        in_step = held - off[:, None] * used + _SMOOTHED * (merged[:, None] - used)
        logarithm = np.log(np.where(level > 0, level - off_level[:, None], _SMOOTHED))
        cross = (in_step * logarithm).sum(axis=1) + (total - in_step.sum(axis=1)) * np.log(_SMOOTHED)
        own = _own(counts, first, last, left, right, off) + (size - filled_bins) * _SMOOTHED * np.log(_SMOOTHED)
        found = (own - cross) / total - np.log(total) + np.log((level * merged[:, None]).sum(axis=1))
    return np.where(np.isfinite(found) & (filled_bins > 0) & (level_bins > 0), found, np.inf)


def _own(counts: Array, first: Array, last: Array, left: Array, right: Array, off: Array) -> Array:
    """The sum of p log p over the filled bins, each lowered a little: to second order, exact at the ends."""
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


ENTROPY = Method("entropy", "least divergence between the values and their steps", needs_histogram=True, find=find)
