"""Numbers as people read them: sensible digits, a unit, a dash for what is not known."""

from edgeopt_gui.units import size

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


def short_name(candidate: str) -> str:
    """A candidate's name without the longest of the options' names."""
    return candidate.replace("dynamic_quantization_group_size", "group")
