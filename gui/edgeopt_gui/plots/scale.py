"""The range of a value axis: round, and steady while the values move a little."""

import math

_ROUND = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
# A range is left for a narrower one only when the values fill less than this share of it.
_FILLS = 0.6
_HEADROOM = 1.05
_ROUND_FACTORS = (1.0, 2.0, 5.0, 10.0)
# A logarithmic axis spans at least this factor.
_MIN_FACTOR = 5.0
# Below the first the lower of two curves keeps the shape that it has; above the second it is a line at the bottom.
_NEAR, _FAR = 2.5, 5.0


def from_zero(highest: float, shown: float) -> float:
    """Returns the end of an axis that begins at 0, given its present end (0 for none)."""
    needed = _rounded_up(highest * _HEADROOM)
    if shown <= 0 or highest > shown or needed < _FILLS * shown:
        return needed
    return shown


def around(
    lowest: float, highest: float, shown: tuple[float, float] | None, minimum: float
) -> tuple[float, float]:
    """Returns both ends of an axis for values far from 0, never narrower than `minimum`."""
    step = _rounded_up(max(highest - lowest, minimum) / 4)
    low, high = math.floor(lowest / step) * step, math.ceil(highest / step) * step
    while high - low < minimum:
        low, high = low - step, high + step
    if shown is None or lowest < shown[0] or highest > shown[1] or high - low < _FILLS * (shown[1] - shown[0]):
        return low, high
    return shown


def factors(lowest: float, highest: float, shown: tuple[float, float] | None) -> tuple[float, float]:
    """Returns both ends of a logarithmic axis for values above 0."""
    low, high = _factor_below(lowest), _factor_above(highest)
    while high < low * _MIN_FACTOR:
        high = _factor_above(high * 1.5)
    if shown is None or lowest < shown[0] or highest > shown[1]:
        return low, high
    return (low, high) if math.log(high / low) < _FILLS * math.log(shown[1] / shown[0]) else shown


def far_apart(low: float, high: float, *, before: bool) -> bool:
    """Whether two values want a logarithmic axis; `before`: there is one, and a little less does not end it."""
    return low > 0 and high > low * (_NEAR if before else _FAR)


def _factor_above(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return next(each for each in _ROUND_FACTORS if each * power >= value * (1 - 1e-9)) * power


def _factor_below(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return next(each for each in reversed(_ROUND_FACTORS) if each * power <= value * (1 + 1e-9)) * power


def _rounded_up(value: float) -> float:
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(each for each in _ROUND if each * power >= value * (1 - 1e-12)) * power
