"""From the lowest to the highest value seen: nothing is cut off, and an outlier stretches the steps of all."""

from edgeopt.quant.ranges.base import Method, Seen
from edgeopt.quant.records import Range
from edgeopt.quant.settings import QuantSettings


def find(seen: Seen, _settings: QuantSettings) -> Range:
    return Range(seen.low, seen.high)


MINMAX = Method("minmax", "from the lowest to the highest value", needs_histogram=False, find=find)
