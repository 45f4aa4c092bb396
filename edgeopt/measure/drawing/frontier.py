"""A frontier as lines of text: how exact each point is against how long it takes."""

import math
from collections.abc import Sequence
from typing import NamedTuple

_HEIGHT = 9
_NARROWEST = 24
_EXACT_DB = 80.0
"""Points at least this exact are drawn on the highest line: to scale, they would squeeze all others together."""


class Dot(NamedTuple):
    time_ms: float
    ratio_db: float
    chosen: bool = False


def frontier(
    dots: Sequence[Dot],
    floor_db: float | None = None,
    width: int = 72,
    *,
    ascii: bool = False,  # noqa: A002 - the word for it
) -> list[str]:
    """Time to the right, decibels upwards; the chosen point is filled, and the floor a dotted line.

    Empty where there is nothing to draw: fewer than two points, or no room.
    """
    known = [dot for dot in dots if math.isfinite(dot.time_ms) and not math.isnan(dot.ratio_db)]
    room = width - 8
    if len(known) < 2 or room < _NARROWEST:
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
