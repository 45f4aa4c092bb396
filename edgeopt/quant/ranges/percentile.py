"""The range that holds all but a share of the values, half of that share on each side."""

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.quant.ranges.base import Method, Seen, counted
from edgeopt.quant.ranges.histogram import Histogram
from edgeopt.quant.records import Range
from edgeopt.quant.settings import QuantSettings


def find(seen: Seen, settings: QuantSettings) -> Range:
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
    """Counts of absolute values, from zero outwards."""
    half = len(histogram.counts) // 2
    return np.asarray(histogram.counts[half:] + histogram.counts[:half][::-1])


PERCENTILE = Method("percentile", "all but a small share of the values", needs_histogram=True, find=find)
