"""Charts as lines of text."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from edgeopt.measure.stats import Interval

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII_BLOCKS = ".:-=+*#@"
_LONGEST_NAME = 28
_NARROWEST = 16
_HEIGHT = 9
_NARROWEST_FRONTIER = 24
_EXACT_DB = 80.0
"""Points at least this exact are drawn on the highest line: to scale, they would squeeze all others together."""


def intervals(rows: Sequence[tuple[str, Interval]], width: int = 80, *, ascii: bool = False) -> list[str]:  # noqa: A002
    """Draws a line for each speed-up: its name, the numbers, and its interval on a logarithmic axis with 1x.

    `openvino   1.42x [1.38 1.46]      ┊      ├─●─┤`
    """
    if not rows:
        return []
    names = _names([name for name, _ in rows], ascii)
    figures = [f"{ratio.median:.2f}x [{ratio.low:.2f} {_end(ratio.high, ascii)}]" for _, ratio in rows]
    longest = max(map(len, figures))
    room = width - len(names[0]) - longest - 4
    if room < _NARROWEST:
        return [f"{name}  {figure}" for name, figure in zip(names, figures, strict=True)]
    # Intervals of few rounds reach from 0 to infinity: their lines lead out of the chart.
    ends = [v for _, r in rows for v in (r.low, r.median, r.high) if 0 < v < math.inf]
    axis = _Axis(min(0.95, *ends, 1.0), max(1.05, *ends, 1.0), room)
    lines = []
    for name, figure, (_, ratio) in zip(names, figures, rows, strict=True):
        lines.append(f"{name}  {figure:<{longest}}  {_line(ratio, axis, room, ascii)}".rstrip())
    lines.append(" " * (width - room) + axis.labels("x", always=1.0))
    return lines


def histograms(
    rows: Sequence[tuple[str, Sequence[float]]],
    width: int = 80,
    *,
    ascii: bool = False,  # noqa: A002 - the usual name
) -> list[str]:
    """Draws a line for each side: a histogram of its latencies, from 1 % to 99 %, on one logarithmic axis."""
    known = [(name, np.asarray(values, dtype=np.float64)) for name, values in rows if len(values)]
    known = [(name, values[values > 0]) for name, values in known]
    if not known:
        return []
    names = _names([name for name, _ in known], ascii)
    room = width - len(names[0]) - 2
    if room < _NARROWEST:
        return []
    # Values outside of these quantiles are rare, and would squeeze all others into one column.
    low = min(float(np.quantile(values, 0.01)) for _, values in known)
    high = max(float(np.quantile(values, 0.99)) for _, values in known)
    axis = _Axis(low / 1.02, high * 1.02, room)
    blocks = _ASCII_BLOCKS if ascii else _BLOCKS
    lines = []
    for name, (_, values) in zip(names, known, strict=True):
        counts = np.zeros(room, dtype=np.int64)
        for value in values[(values >= low) & (values <= high)]:
            counts[axis.place(float(value))] += 1
        cells = [" " if count == 0 else _block(blocks, count / max(1, counts.max())) for count in counts]
        lines.append(f"{name}  {''.join(cells)}".rstrip())
    lines.append(" " * (width - room) + axis.labels(" ms"))
    return lines


def series(
    rows: Sequence[tuple[str, Sequence[float | None]]],
    unit: str,
    width: int = 80,
    *,
    ascii: bool = False,  # noqa: A002 - the usual name
) -> list[str]:
    """Draws a line for each figure over time: its name, its lowest and highest value, and a curve between these.

    Values are evenly spaced in time; None is a gap. Each line has a scale of its own.
    """
    blocks = _ASCII_BLOCKS if ascii else _BLOCKS
    known = [(name, values) for name, values in rows if any(value is not None for value in values)]
    if not known:
        return []
    names = _names([name for name, _ in known], ascii)
    spans = []
    for _, values in known:
        known_values = [value for value in values if value is not None]
        minimum, maximum = _figure(min(known_values)), _figure(max(known_values))
        spans.append(f"{minimum} {unit}" if minimum == maximum else f"{minimum} to {maximum} {unit}")
    longest = max(map(len, spans))
    room = width - len(names[0]) - longest - 4
    if room < _NARROWEST:
        return [f"{name}  {span}" for name, span in zip(names, spans, strict=True)]
    lines = []
    for name, span, (_, values) in zip(names, spans, known, strict=True):
        columns = _columns(values, room)
        known_values = [value for value in values if value is not None]
        low, high = min(known_values), max(known_values)
        # A value that hardly moves is drawn as a level line, not as noise stretched to the full height.
        scale = max(high - low, 0.05 * abs(high)) or 1.0
        cells = [" " if value is None else _block(blocks, (value - low) / scale) for value in columns]
        lines.append(f"{name}  {span:<{longest}}  {''.join(cells)}".rstrip())
    return lines


def _line(ratio: Interval, axis: "_Axis", room: int, ascii: bool) -> str:  # noqa: A002
    one, crossed, left, through, median, right = "|+[-o]" if ascii else "┊┼├─●┤"
    cells, place = [" "] * room, axis.place(1.0)
    cells[place] = one
    low = axis.place(ratio.low) if ratio.low > 0 else 0
    high = axis.place(ratio.high) if ratio.high < math.inf else room - 1
    if high - low >= 2:  # else the dot alone says as much
        cells[low : high + 1] = through * (high + 1 - low)
        if low < place < high:
            cells[place] = crossed
        if ratio.low > 0:
            cells[low] = left
        if ratio.high < math.inf:
            cells[high] = right
    cells[axis.place(ratio.median)] = median
    return "".join(cells)


class _Axis:
    """A logarithmic axis in columns of text."""

    def __init__(self, low: float, high: float, room: int) -> None:
        self._low, self._span, self._room = math.log(low), max(math.log(high / low), 1e-9), room

    def place(self, value: float) -> int:
        share = (math.log(value) - self._low) / self._span
        return min(self._room - 1, max(0, round(share * (self._room - 1))))

    def labels(self, unit: str, always: float | None = None) -> str:
        """Returns round numbers under their columns, as many as fit; `always` goes first."""
        low, high = math.exp(self._low), math.exp(self._low + self._span)
        cells = [" "] * self._room
        for value in [*([] if always is None else [always]), *_round_numbers(low, high)]:
            text = f"{value:g}{unit}"
            begin = min(max(0, self.place(value) - len(f"{value:g}") // 2), self._room - len(text))
            around = cells[max(0, begin - 2) : begin + len(text) + 2]
            if begin >= 0 and all(cell == " " for cell in around):
                cells[begin : begin + len(text)] = text
        return "".join(cells).rstrip()


def _round_numbers(low: float, high: float) -> list[float]:
    """Returns the roundest numbers between two values first, or both ends if there are none."""
    found: list[float] = []
    for digits in ((1.0,), (2.0, 5.0), (1.5, 3.0, 7.0), (1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2.5, 4.0, 6.0, 8.0, 9.0)):
        for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
            # Converted through text, which gives 0.3 for 3 * 10**-1.
            found += [v for d in digits if low <= (v := float(f"{d:g}e{power}")) <= high and v not in found]
    return found if len(found) >= 2 else [*found, float(f"{low:.3g}"), float(f"{high:.3g}")]


def _names(names: Sequence[str], ascii: bool) -> list[str]:  # noqa: A002
    """Pads the names to one length; the middle of a long one and a repeated prefix are shortened."""
    shared = f"{names[0]} · "
    short = [name if name == names[0] else name.replace(shared, "· ", 1) for name in names]
    if ascii:
        short = [name.replace("·", "-").encode("ascii", "replace").decode("ascii") for name in short]
    half = _LONGEST_NAME // 2 - 1
    short = [name if len(name) <= _LONGEST_NAME else f"{name[:half]}..{name[-half:]}" for name in short]
    longest = max(map(len, short))
    return [name.ljust(longest) for name in short]


def _columns(values: Sequence[float | None], room: int) -> list[float | None]:
    """Returns at most `room` values, one a column: the median of the values that fall into it."""
    if len(values) <= room:
        # A few values are drawn wide, each over as many columns as another.
        return [value for value in values for _ in range(room // len(values))]
    found: list[float | None] = []
    for column in range(room):
        part = values[column * len(values) // room : (column + 1) * len(values) // room]
        known_values = [value for value in part if value is not None]
        found.append(float(np.median(known_values)) if known_values else None)
    return found


def _block(blocks: str, share: float) -> str:
    return blocks[min(len(blocks) - 1, max(0, math.ceil(share * len(blocks)) - 1))]


def _end(value: float, ascii: bool) -> str:  # noqa: A002
    if math.isinf(value):
        return "inf" if ascii else "∞"
    return f"{value:.2f}"


def _figure(value: float) -> str:
    """Formats a value with three significant digits, and without a fraction from 100 on."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


class Dot(NamedTuple):
    time_ms: float
    ratio_db: float
    chosen: bool = False


def frontier(
    dots: Sequence[Dot],
    floor_db: float | None = None,
    width: int = 72,
    *,
    ascii: bool = False,  # noqa: A002 - the usual name
) -> list[str]:
    """Draws points by time (to the right) and decibels (upwards); the chosen one is filled, the floor is dotted.

    Returns an empty list with fewer than two points, or if the width is too small.
    """
    known = [dot for dot in dots if math.isfinite(dot.time_ms) and not math.isnan(dot.ratio_db)]
    room = width - 8
    if len(known) < 2 or room < _NARROWEST_FRONTIER:
        return []
    ratios = [dot.ratio_db for dot in known if abs(dot.ratio_db) < _EXACT_DB]
    ratios += [] if floor_db is None else [floor_db]
    times = [dot.time_ms for dot in known]
    high, low = max(ratios, default=_EXACT_DB), min(ratios, default=0.0)
    above = int(any(dot.ratio_db >= _EXACT_DB for dot in known))
    down = _Scale(high, low, _HEIGHT, above)
    along = _Scale(min(times), max(times), room)
    cells = [[" "] * room for _ in range(_HEIGHT)]
    if floor_db is not None:
        cells[down.place(floor_db)] = ["." if ascii else "┄"] * room
    for dot in sorted(known, key=lambda each: each.chosen):
        mark = ("*" if dot.chosen else "o") if ascii else "●" if dot.chosen else "○"
        cells[0 if dot.ratio_db >= _EXACT_DB else down.place(dot.ratio_db)][along.place(dot.time_ms)] = mark
    marked = [high, low, *([] if floor_db is None else [floor_db])]
    labels = {down.place(ratio): f"{ratio:.0f} dB" for ratio in marked} | ({0: "exact"} if above else {})
    side = "|" if ascii else "│"
    lines = [f"{labels.get(line, ''):>6} {side}{''.join(cells[line])}".rstrip() for line in range(_HEIGHT)]
    lines.append(" " * 7 + ("+" if ascii else "└") + ("-" if ascii else "─") * room)
    first, last = _milliseconds(min(times)), _milliseconds(max(times))
    lines.append(" " * 8 + first + last.rjust(room - len(first)))
    return lines


class _Scale:
    """Even steps from one value to another, in places from `begin` to the last."""

    def __init__(self, first: float, last: float, places: int, begin: int = 0) -> None:
        self._first, self._span, self._places, self._begin = first, last - first, places, begin

    def place(self, value: float) -> int:
        share = (value - self._first) / self._span if self._span else 0.0
        return self._begin + round(min(1.0, max(0.0, share)) * (self._places - 1 - self._begin))


def _milliseconds(value: float) -> str:
    return f"{value:.3g} ms"
