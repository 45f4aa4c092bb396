"""The range that would lose least if the values followed the bell curve, or the Laplace curve, that fits them.

After "Post training 4-bit quantization of convolutional networks for rapid-deployment" (Banner and others, 2019):
for each curve there is one best multiple of its width. What few samples show of the tails does not matter then.
"""

import math
from functools import cache

from edgeopt.quant.ranges.base import Method, Seen, counted
from edgeopt.quant.ranges.histogram import LEVELS, Histogram
from edgeopt.quant.records import Range
from edgeopt.quant.settings import QuantSettings

# The mean absolute deviation over the standard deviation: 0.80 for a bell curve, 0.71 for Laplace's.
_BETWEEN = (math.sqrt(2 / math.pi) + math.sqrt(0.5)) / 2


def find(seen: Seen, settings: QuantSettings) -> Range:
    """Each side of 0 is half a curve, and has as many steps as its share of the range."""
    histogram = counted(seen)
    below, above = (_deviation(histogram, side) for side in (-1, 1))
    low, high = _extent(below, LEVELS), _extent(above, LEVELS)
    if settings.symmetric_activations or low + high == 0:
        return Range(-max(low, high), max(low, high))
    shares = low / (low + high), high / (low + high)
    low, high = (_extent(b, 2 * LEVELS * s) for b, s in zip((below, above), shares, strict=True))
    return Range(max(-low, seen.low), min(high, seen.high))


def _deviation(histogram: Histogram, side: int) -> tuple[float, float]:
    """The mean and the root mean square of one side; the two bins at 0 hold what an activation cut off."""
    values = histogram.centres * side
    counts = histogram.counts * (values > histogram.width)
    total = max(float(counts.sum()), 1.0)
    return float((values * counts).sum()) / total, math.sqrt(float((values**2 * counts).sum()) / total)


def _extent(deviation: tuple[float, float], levels: float) -> float:
    """How far the best range goes."""
    mean, root = deviation
    if root == 0:
        return 0.0
    steps = max(round(levels), 2)
    return root * _bell_multiple(steps) if mean / root > _BETWEEN else mean * _laplace_multiple(steps)


@cache
def _laplace_multiple(levels: int) -> float:
    """Where the derivative of 2 e^-a + a^2 / (3 levels^2) is 0."""
    multiple = 10.0
    for _ in range(50):
        multiple = math.log(3 * levels**2 / multiple)
    return multiple


@cache
def _bell_multiple(levels: int) -> float:
    """Where (a^2 + 1) erfc(a / sqrt 2) - a sqrt(2 / pi) e^(-a^2 / 2) + a^2 / (3 levels^2) is least."""

    def error(a: float) -> float:
        cut_off = (a * a + 1) * math.erfc(a / math.sqrt(2)) - a * math.sqrt(2 / math.pi) * math.exp(-a * a / 2)
        return cut_off + a * a / (3 * levels**2)

    return min((k / 100 for k in range(100, 800)), key=error)


DISTRIBUTION = Method(
    "distribution", "the best range of the curve that fits the values", needs_histogram=True, find=find
)
