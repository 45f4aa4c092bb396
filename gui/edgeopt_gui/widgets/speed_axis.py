"""An axis of speeds around 1x: logarithmic, for 2x and 0.5x are equally far from it."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

Span = tuple[float, float]
"""The speeds at the ends of the axis."""
Interval = tuple[float | None, float | None, float | None]
"""Low, middle and high; None where it is open or not known."""
_WIDEST = 8.0

_STEPS = (
    (1, 2, 5),
    (1, 1.5, 2, 3, 5, 7),
    (1, 1.1, 1.2, 1.4, 1.7, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9),
)
"""Ticks within a power of ten, the coarsest first."""
_SETS = tuple(tuple(step * 10.0**power for power in range(-4, 6) for step in steps) for steps in _STEPS)
COARSE_TICKS = _SETS[0]
_WIDEST_GAP = 0.35
"""Widest gap without a tick, as a share of the axis."""


def span_around(speeds: Sequence[float]) -> Span:
    """Returns the span of the speeds and 1x, with some room around them."""
    low, high = min([0.8, *speeds]), max([1.25, *speeds])
    room = (high / low) ** 0.15
    return low / room, high * room


def span_of(intervals: Iterable[Interval]) -> Span:
    """Returns the span of intervals; an end that is open, or far from its middle, must not squeeze the others."""
    speeds: list[float] = []
    for low, middle, high in intervals:
        if middle:
            near = (end for end in (low, high) if end and middle / _WIDEST <= end <= middle * _WIDEST)
            speeds += (middle, *near)
    return span_around(speeds)


def place_on(span: Span, value: float) -> float:
    """Returns the position of a speed on the axis, 0 to 1; values outside are at its ends."""
    low, high = (math.log(end) for end in span)
    if value <= 0:
        return 0.0
    return min(1.0, max(0.0, (math.log(value) - low) / (high - low)))


def ticks(span: Span) -> tuple[float, ...]:
    """Returns the speeds to label on the axis."""
    shown: tuple[float, ...] = (1.0,)
    for each in _SETS:
        shown = tuple(tick for tick in each if span[0] <= tick <= span[1])
        places = [0.0, *(place_on(span, tick) for tick in shown), 1.0]
        if max(after - before for before, after in pairwise(places)) <= _WIDEST_GAP:
            break
    return shown
