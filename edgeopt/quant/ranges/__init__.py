"""How the ranges of activations are found; one file for each method."""

from edgeopt.errors import UsageError
from edgeopt.quant.ranges.base import Method, Seen, range_of, usable
from edgeopt.quant.ranges.distribution import DISTRIBUTION
from edgeopt.quant.ranges.entropy import ENTROPY
from edgeopt.quant.ranges.minmax import MINMAX
from edgeopt.quant.ranges.moving_average import MOVING_AVERAGE
from edgeopt.quant.ranges.mse import MSE
from edgeopt.quant.ranges.percentile import PERCENTILE

METHODS: tuple[Method, ...] = (MINMAX, MOVING_AVERAGE, PERCENTILE, ENTROPY, MSE, DISTRIBUTION)

__all__ = ["METHODS", "Method", "Seen", "method_named", "range_of", "usable"]


def method_named(name: str) -> Method:
    for method in METHODS:
        if method.name == name:
            return method
    raise UsageError(
        f"There is no calibration named '{name}'.", f"Available: {', '.join(m.name for m in METHODS)}."
    )
