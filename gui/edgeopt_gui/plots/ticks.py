"""The positions and labels of an axis's lines."""

import math
import time

from edgeopt.views.words import milliseconds

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_FACTOR_STEPS = ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))
_CLOCK_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
_DAY_S = 86400

Ticks = list[tuple[float, str]]


def value_ticks(low: float, high: float, maximum: int) -> Ticks:
    """Returns round values from `low` to `high`, at most `maximum` of them, but always two."""
    minimum = (high - low) / max(maximum - 1, 1)
    power = 10.0 ** math.floor(math.log10(minimum))
    step = next(each for each in _STEPS if each * power >= minimum * (1 - 1e-9)) * power
    smaller = (each * tens for tens in (power, power / 10) for each in reversed(_STEPS) if each * tens < step)
    step = next((each for each in (step, *smaller) if _count(low, high, each) >= 2), step)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    if step * 10**digits % 1 > 1e-6:
        digits += 1  # 2.5 and its like
    first = math.ceil(low / step - 1e-9)
    places = range(first, first + _count(low, high, step))
    if len(places) > maximum:
        places = places[:: len(places) - 1]  # both ends: one alone would not tell the scale
    return [(k * step, f"{k * step:,.{digits}f}") for k in places]


def _count(low: float, high: float, step: float) -> int:
    return math.floor(high / step + 1e-9) - math.ceil(low / step - 1e-9) + 1


def factor_ticks(low: float, high: float, maximum: int) -> Ticks:
    """Returns round values on a logarithmic axis, at most `maximum` of them, but always two if two fit."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for steps in _FACTOR_STEPS:
        values = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        found = [value for value in values if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
        if len(found) <= maximum:
            break
    else:
        found = found[:: -(-len(found) // max(maximum, 2))]
    if len(found) < 2:
        found = [low, high]
    return [(value, f"{value:,.{max(0, -math.floor(math.log10(value) + 1e-9))}f}") for value in found]


def clock_ticks(begin_s: float, end_s: float, maximum: int) -> Ticks:
    """Returns round times of the local clock, at most `maximum` of them."""
    minimum = (end_s - begin_s) / max(maximum, 1)
    step = next((each for each in _CLOCK_STEPS_S if each >= minimum), math.ceil(minimum / _DAY_S) * _DAY_S)
    # Round in local time: the offset of this moment, so that a change to summer time is off by an hour at most.
    offset = time.localtime(end_s).tm_gmtoff
    first = math.ceil((begin_s + offset) / step) * step - offset
    pattern = "%H:%M:%S" if step < 60 else "%H:%M" if step < _DAY_S else "%d %b"
    count = max(0, math.floor((end_s - first) / step) + 1)
    return [(at, time.strftime(pattern, time.localtime(at))) for at in (first + k * step for k in range(count))]


def significant(value: float, digits: int = 3) -> str:
    """Returns a value with its significant digits: `0.262`, `12.3`, `1,234`."""
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def latency(time_ms: float) -> tuple[str, str]:
    """Returns a latency and its unit: `262`, `µs`; from 1 ms on `12.3`, `ms`."""
    figure, _, unit = latency_text(time_ms).partition(" ")
    return figure, unit


def latency_text(time_ms: float) -> str:
    return milliseconds(time_ms) if time_ms else "0 ms"


def clock_text(time_s: float) -> str:
    """Returns a time of the local clock: `14:03:25`."""
    return time.strftime("%H:%M:%S", time.localtime(time_s))
