"""Numbers with their units, in as many digits as a person reads; sizes in units of 1024 bytes everywhere."""

import math

_SIZES = ("bytes", "KiB", "MiB", "GiB", "TiB")
# As `SAME` in measure/stats.py, which imports numpy.
_TIED = 1.02

RUNS_FOR_P99 = 100
"""The 99th percentile of fewer is hardly more than the slowest of them, and is not shown."""
NO_INTERVAL = "no usable interval"
WIDEST = 10.0
"""An interval of a ratio whose ends are further apart than this factor says nothing."""


def size(size_bytes: float) -> str:
    """`912 bytes`, `1.5 MiB`, `6.0 GiB`, and `24 GiB` where it is just that: three digits at most."""
    if size_bytes == 1:
        return "1 byte"
    value, unit = float(size_bytes), 0
    while value >= 999.5 and unit < len(_SIZES) - 1:
        value, unit = value / 1024, unit + 1
    digits = 0 if value >= 99.95 or value == int(value) else 1
    return f"{value:.{digits}f} {_SIZES[unit]}"


def mebibytes(size_bytes: float) -> str:
    """Returns a size for columns, whose figures are compared: `1,204.5 MiB`, `0.3 MiB`."""
    return f"{size_bytes / 2**20:,.1f} MiB"


def count(number: int, noun: str = "") -> str:
    """`1 node`, `12,345 nodes`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}" if noun else f"{number:,}"


def short_count(number: float) -> str:
    """`812`, `4.6 million`."""
    for limit, word in ((1e9, "billion"), (1e6, "million")):
        if number >= limit:
            return f"{number / limit:.{0 if number >= 100 * limit else 1}f} {word}"
    return f"{number:,.0f}"


_FACTOR = 1.5


def speed_difference(share: float) -> str:
    """A speed as a share of another: `4 % slower`, `3.3x the latency`; within 2 %, `tied`.

    Per cent are of time: if A is 4 % faster than B, then B is 4 % slower than A.
    """
    if 1 / _TIED < share < _TIED:
        return "tied"
    if share <= 0:
        return "much slower"
    factor = max(share, 1 / share)
    if factor < _FACTOR:
        return f"{100 * (factor - 1):.0f} % {'slower' if share < 1 else 'faster'}"
    return f"{factor:.{1 if factor < 10 else 0}f}x the {'latency' if share < 1 else 'speed'}"


def behind(share: float, best: str = "") -> str:
    """Returns why a candidate is not the best: `4 % slower than B`, `3.3x the latency of B`, `tied with B`.

    Candidates that are as fast as the best, but for a few per cent, are ranked by other things.
    """
    difference = speed_difference(share)
    if difference == "tied":
        return f"tied with {best}" if best else difference
    than = f"{difference} {'of' if 'x the' in difference else 'than'} {best}" if best else difference
    if share < 1:
        return than
    why = ": too close, so that fewer threads, accuracy or fewer options decide" if best else ", too close"
    return f"{than}{why}"


def usable_interval(low: float | None, high: float | None) -> bool:
    """Whether an interval is narrow enough to print; one leg or a loaded machine gives one without an end."""
    return low is not None and high is not None and low > 0 and high <= WIDEST * low


def speedup_text(median: float, low: float, high: float) -> str:
    """`2.61x [1.57 4.34]`, or that there is no usable interval."""
    return f"{median:.2f}x [{low:.2f} {high:.2f}]" if usable_interval(low, high) else NO_INTERVAL


def milliseconds(value: float) -> str:
    """Three digits: `36.8 µs`, `1.27 ms`, `1,250 ms`."""
    if abs(value) < 1:
        return f"{three_digits(value * 1e3)} µs"
    return f"{value:,.0f} ms" if value >= 1000 else f"{three_digits(value)} ms"


def time_instead(after_ms: float, before_ms: float) -> str:
    """`36.8 µs instead of 110 µs`."""
    return f"{milliseconds(after_ms)} instead of {milliseconds(before_ms)}"


def time_left(seconds: float | None) -> str:
    """`about 40 s left`; "" for what is not known or over, because it may take longer."""
    if seconds is None or seconds < 1:
        return ""
    return f"about {seconds:.0f} s left" if seconds < 90 else f"about {seconds / 60:.0f} min left"


def three_digits(value: float) -> str:
    """Three digits that count, with their zeros, so that columns align."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}"


def percent(share: float, digits: int = 1, sign: str = "") -> str:
    """`12.3 %`, and `+12.3 %` with the sign."""
    return f"{100 * share:{sign}.{digits}f} %"


def clock(clock_hz: float) -> str:
    return f"{clock_hz / 1e9:.2f} GHz" if clock_hz >= 1e9 else f"{clock_hz / 1e6:.0f} MHz"
