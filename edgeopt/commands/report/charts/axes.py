"""Scales with round numbers on them, and the parts that all charts are made of."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgeopt.commands.documents.markup import Markup, joined, tag, text

LETTER_PX = 7.1
"""The width of a letter in the middle, at the size of text in charts."""
_ROUND = (1.0, 2.0, 5.0)
# Beyond this ratio of values, a linear scale would squeeze most of them into a corner.
_WIDE = 8.0


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to places in pixels; `end` may lie before `begin`, as it does upwards."""

    low: float
    high: float
    begin: float
    end: float
    logarithmic: bool = False

    def place(self, value: float) -> float:
        if self.logarithmic:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.begin + min(1.0, max(0.0, share)) * (self.end - self.begin)

    def ticks(self, most: int) -> list[float]:
        """Round numbers within the range, at most this many."""
        found = self._decades() if self.logarithmic else []
        while len(found) > most:
            kept = [value for value in found if _is_decade(value)]
            found = kept if len(kept) >= 2 and len(kept) < len(found) else found[::2]
        if len(found) < 2:
            found = _even(self.low, self.high, most)
        return found

    def _decades(self) -> list[float]:
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        # Through text, so that 3 * 10**-1 is 0.3.
        values = [float(f"{digit:g}e{power}") for power in powers for digit in _ROUND]
        return [value for value in values if self.low <= value <= self.high]


def scale_for(values: Sequence[float], begin: float, end: float, *, room: float = 0.06) -> Scale:
    """One that holds them all with some room; logarithmic where they lie far apart."""
    low, high = min(values), max(values)
    if low > 0 and high / low > _WIDE:
        margin = (high / low) ** room
        return Scale(low / margin, high * margin, begin, end, logarithmic=True)
    margin = max(high - low, abs(high) * 0.02, 1e-12) * room
    return Scale(low - margin, high + margin, begin, end)


def _even(low: float, high: float, most: int) -> list[float]:
    """Multiples of a round step: the fewest that are at least two, or as many as there may be."""
    power = math.floor(math.log10(high - low))
    steps = [float(f"{digit:g}e{p}") for p in (power, power - 1, power - 2) for digit in (5, 2, 1)]
    best: list[float] = []
    for step in steps:
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        found = [float(f"{k * step:.12g}") for k in range(first, last + 1)]
        if len(found) > max(2, most):
            break
        best = found
    return best


def _is_decade(value: float) -> bool:
    return abs(math.log10(value) - round(math.log10(value))) < 1e-9


def label(x: float, y: float, words: str, anchor: str = "start", class_: str = "soft") -> Markup:
    return tag("text", text(words), x=x, y=y, text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str = "grid") -> Markup:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def bar(x: float, y: float, width: float, height: float, class_: str) -> Markup:
    return tag("rect", x=x, y=y, width=max(0.0, width), height=height, rx=1.5, class_=class_)


def bottom_axis(scale: Scale, top: float, bottom: float, named: Callable[[float], str], title: str = "") -> Markup:
    """Grid lines, their numbers below, and what they are."""
    room = abs(scale.end - scale.begin)
    ticks = scale.ticks(max(2, int(room // 80)))
    marks = []
    for value in ticks:
        x, words = scale.place(value), named(value)
        half = len(words) * LETTER_PX / 2
        marks.append(line(x, top, x, bottom))
        right = max(scale.begin, scale.end)
        anchor, at = ("end", min(right + 6, x + half)) if x + half > right + 6 else ("middle", x)
        marks.append(label(at, bottom + 16, words, anchor))
    if title:
        marks.append(label((scale.begin + scale.end) / 2, bottom + 34, title, "middle"))
    return joined(*marks)


def left_axis(scale: Scale, left: float, right: float, named: Callable[[float], str], most: int = 5) -> Markup:
    marks = []
    for value in scale.ticks(most):
        y = scale.place(value)
        marks += [line(left, y, right, y), label(left - 8, y + 4, named(value), "end")]
    return joined(*marks)


def shortened(words: str, room_px: float) -> str:
    """Cut in the middle where it is too long: both ends of a name tell it from others."""
    most = max(6, int(room_px / LETTER_PX))
    if len(words) <= most:
        return words
    return f"{words[: (most - 1) // 2]}…{words[-(most // 2) :]}"
