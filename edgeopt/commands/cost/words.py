"""Figures of costs in words: three figures, because nothing here is known better."""

import math

from edgeopt.commands.cost.records import Span

_LARGE = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


def number(value: float) -> str:
    """`0.0123`, `12.3`, `1,234`, `17.0 billion`; what is not finite is said."""
    if not math.isfinite(value):
        return "never"
    size, word = _scale(value)
    return f"{_figures(value / size)} {word}".rstrip()


def span(found: Span) -> str:
    """`12.3 [10.1 14.9]`, or the figure alone where nothing is uncertain about it."""
    if number(found.low) == number(found.high) == number(found.value):
        return number(found.value)
    size, word = _scale(found.value)
    ends = " ".join(_figures(end / size) if math.isfinite(end) else "never" for end in (found.low, found.high))
    middle = _figures(found.value / size) if math.isfinite(found.value) else "never"
    return f"{middle} [{ends}] {word}".rstrip()


def count(found: Span) -> str:
    """Of whole things: `19 [15 20]`."""
    low, middle, high = (
        f"{v:,.0f}" if math.isfinite(v) else "never" for v in (found.low, found.value, found.high)
    )
    return middle if low == high else f"{middle} [{low} {high}]"


def times(speedup: Span) -> str:
    """`2.47x [1.96 2.60]`."""
    if speedup.low == speedup.high:
        return f"{speedup.value:.2f}x"
    high = f"{speedup.high:.2f}" if math.isfinite(speedup.high) else "open"
    return f"{speedup.value:.2f}x [{speedup.low:.2f} {high}]"


def _scale(value: float) -> tuple[float, str]:
    return next((row for row in _LARGE if math.isfinite(value) and abs(value) >= row[0]), (1.0, ""))


def _figures(value: float) -> str:
    if value == 0:
        return "0"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
