"""The average of the samples' own extremes: one odd sample moves it little."""

from edgeopt.quant.ranges.base import Method, Seen
from edgeopt.quant.records import Range
from edgeopt.quant.settings import QuantSettings


def find(seen: Seen, _settings: QuantSettings) -> Range:
    """As onnxruntime's `CalibMovingAverage` does for data read at once."""
    return Range(float(seen.lows.mean()), float(seen.highs.mean()))


MOVING_AVERAGE = Method(
    "moving-average", "the average of the samples' lowest and highest values", needs_histogram=False, find=find
)
