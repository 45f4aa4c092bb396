"""What calibration sees of a tensor, and what a method is that makes a range of it."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from edgeopt.backends.base import Array
from edgeopt.quant.ranges.histogram import Histogram
from edgeopt.quant.records import Range
from edgeopt.quant.settings import QuantSettings

# Below this, float32 cannot represent a scale of 255 steps, or its inverse, in full precision.
_SMALLEST_SPAN = 1e-30


@dataclass(frozen=True, slots=True)
class Seen:
    """A tensor's values on the samples, without the values themselves."""

    tensor: str
    lows: Array
    """The lowest finite value of each sample, as float64."""
    highs: Array
    histogram: Histogram | None = None
    """Of all samples; None where no method asked for it, or all values are 0."""
    channel_axis: int | None = None
    channel_lows: Array | None = None
    """Of each channel over all samples; None where the channels of two samples differ in number."""
    channel_highs: Array | None = None
    not_finite: tuple[int, ...] = ()
    """The samples on which it held NaN or infinity."""
    elements: int = 0
    """Of one sample, the first."""

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
    """One way to find ranges; `find` need not see to it that 0 is inside, `range_of` does."""

    name: str
    title: str
    needs_histogram: bool
    find: Callable[[Seen, QuantSettings], Range]


def counted(seen: Seen) -> Histogram:
    if seen.histogram is None:
        raise ValueError(f"'{seen.tensor}' was seen without a histogram")
    return seen.histogram


def range_of(method: Method, seen: Seen, settings: QuantSettings) -> Range:
    """The range of a tensor by a method: 0 is inside, both ends are numbers, and it is never empty."""
    if method.needs_histogram and seen.histogram is None:
        return usable(Range(seen.low, seen.high), settings)
    return usable(method.find(seen, settings), settings)


def usable(found: Range, settings: QuantSettings) -> Range:
    """The range with 0 in it, symmetric where that is asked for; one without extent becomes that from 0 to 1."""
    low, high = min(found.low, 0.0) + 0.0, max(found.high, 0.0)  # -0.0 + 0.0 is 0.0
    if not (math.isfinite(low) and math.isfinite(high)) or high - low < _SMALLEST_SPAN:
        low, high = 0.0, 1.0
    if settings.symmetric_activations:
        return Range(-max(-low, high), max(-low, high))
    return Range(low, high)
