"""An axis of speeds around 1x: logarithmic, for 2x and 0.5x are equally far from it."""

import math
from collections.abc import Sequence

Span = tuple[float, float]
"""The speeds at the ends of the axis."""

COARSE_TICKS = tuple(step * 10.0**power for power in (-2, -1, 0, 1, 2) for step in (1, 2, 5))
_FINE_TICKS = (0.8, 0.9, 1.0, 1.1, 1.2, 1.4, 1.7, 2.0)
_FEWEST_TICKS = 3


def span_around(speeds: Sequence[float]) -> Span:
    """With some room around all of them and 1x."""
    low, high = min([0.8, *speeds]), max([1.25, *speeds])
    room = (high / low) ** 0.15
    return low / room, high * room


def place_on(span: Span, value: float) -> float:
    """The position of a speed on the axis, 0 to 1; values outside are at its ends."""
    low, high = (math.log(end) for end in span)
    if value <= 0:
        return 0.0
    return min(1.0, max(0.0, (math.log(value) - low) / (high - low)))


def ticks(span: Span) -> tuple[float, ...]:
    """The speeds that are written on the axis; 1x is always among them."""
    coarse = tuple(tick for tick in COARSE_TICKS if span[0] <= tick <= span[1])
    return coarse if len(coarse) >= _FEWEST_TICKS else tuple(t for t in _FINE_TICKS if span[0] <= t <= span[1])
