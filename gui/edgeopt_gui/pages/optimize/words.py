"""Numbers as people read them: sensible digits, a unit, a dash for what is not known."""

import re

from edgeopt.units import count, size

NOTHING = "–"  # noqa: RUF001 - the dash of a table's empty cell


def times(ratio: float | None) -> str:
    """A speed against the baseline's: 3.19x."""
    if ratio is None:
        return NOTHING
    return f"{ratio:.{2 if ratio < 10 else 1 if ratio < 100 else 0}f}x"


def milliseconds(value: float | None) -> str:
    """Three digits, below a millisecond in microseconds."""
    if value is None:
        return NOTHING
    number, unit = (value * 1000, "µs") if value < 1 else (value, "ms")
    digits = 2 if number < 10 else 1 if number < 100 else 0
    return f"{number:,.{digits}f} {unit}"


def memory(value: int | None) -> str:
    return NOTHING if value is None else size(value)


def accuracy(value: float | None) -> str:
    if value is None:
        return NOTHING
    from edgeopt.graph.accuracy import decibels  # with it comes numpy, after the first window

    return decibels(value)


def change(before: float | None, after: float | None) -> str:
    """The share that was won or lost."""
    if not before or after is None:
        return ""
    share = after / before - 1
    if abs(share) < 0.005:
        return "same"
    return f"{'+' if share > 0 else '−'}{abs(share):.0%}".replace("%", " %")  # noqa: RUF001 - a true minus


def seconds_left(value: float | None) -> str:
    if value is None or value < 1:
        return ""
    minutes, seconds = divmod(round(value), 60)
    return f"at most {minutes} min {seconds:02} s left" if minutes else f"at most {seconds} s left"


def ago(seconds: float) -> str:
    """`12 minutes ago`; the clock may have been set meanwhile."""
    for unit, length_s in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= length_s:
            return f"{count(int(seconds // length_s), unit)} ago"
    return "less than a minute ago"


def short_title(title: str) -> str:
    """The first words of a long one."""
    return re.split("[:;,]", title, maxsplit=1)[0]


def short_name(candidate: str) -> str:
    """A candidate's name without the longest of the options' names."""
    return candidate.replace("dynamic_quantization_group_size", "group")
