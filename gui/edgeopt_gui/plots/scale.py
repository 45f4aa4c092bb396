"""The range of a value axis: round, and steady while the values move a little."""

import math

_ROUND = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
# A range is left for a narrower one only when the values fill less than this share of it.
_FILLS = 0.6
_HEADROOM = 1.05


def from_zero(highest: float, shown: float) -> float:
    """The end of an axis that begins at 0, given the end that is shown now (0: none yet)."""
    needed = _rounded_up(highest * _HEADROOM)
    if shown <= 0 or highest > shown or needed < _FILLS * shown:
        return needed
    return shown


def around(lowest: float, highest: float, shown: tuple[float, float] | None, least: float) -> tuple[float, float]:
    """Both ends of an axis for values far from 0, never narrower than `least`."""
    step = _rounded_up(max(highest - lowest, least) / 4)
    low, high = math.floor(lowest / step) * step, math.ceil(highest / step) * step
    while high - low < least:
        low, high = low - step, high + step
    if shown is None or lowest < shown[0] or highest > shown[1] or high - low < _FILLS * (shown[1] - shown[0]):
        return low, high
    return shown


def _rounded_up(value: float) -> float:
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(each for each in _ROUND if each * power >= value * (1 - 1e-12)) * power
