"""Bars that lie: stages one below the other, or the two sides of each phase."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from edgeopt.commands.documents.blocks import Picture
from edgeopt.commands.documents.markup import Markup, joined
from edgeopt.commands.report.charts.axes import LETTER_PX, Scale, bar, label, line, shortened

_BAR, _SPACE, _GROUP = 16.0, 6.0, 10.0
_NARROW = 500
"""Below this width names stand over their bars."""
_MOST_NAME = 0.34


@dataclass(frozen=True, slots=True)
class Bar:
    value: float
    class_: str
    said: str
    low: float | None = None
    """With `high`: between what it lies."""
    high: float | None = None
    mark: float | None = None
    """A value to hold it against, as a tick."""


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    bars: tuple[Bar, ...]


def draw(groups: Sequence[Group], width: int, most: float | None = None) -> Picture:
    """From 0 on, so that lengths compare; what it says stands behind each bar."""
    narrow = width < _NARROW
    said = max((len(each.said) for group in groups for each in group.bars), default=0) * LETTER_PX + 12
    names = 0.0 if narrow else min(_MOST_NAME * width, max(len(g.name) for g in groups) * LETTER_PX + 12)
    ends = [value for g in groups for b in g.bars for value in (b.value, b.high, b.mark) if value is not None]
    highest = max((value for value in ends if math.isfinite(value)), default=1.0)
    bars_most = max((b.value for g in groups for b in g.bars), default=1.0)
    # An interval without an end must not shrink every bar to nothing.
    top = most or min(highest, 1.6 * bars_most) or 1.0
    scale = Scale(0.0, top, names, width - said)
    y, parts = 2.0, []
    for group in groups:
        if narrow:
            parts.append(label(0, y + 11, shortened(group.name, width), class_="ink"))
            y += 18
        else:
            middle = y + len(group.bars) * (_BAR + 2) / 2
            parts.append(label(names - 10, middle + 3, shortened(group.name, names - 10), "end", "ink"))
        for each in group.bars:
            parts.append(_bar(each, y, scale))
            y += _BAR + 2
        y += _GROUP if len(group.bars) > 1 or narrow else _SPACE
    parts.insert(0, line(scale.begin, 0, scale.begin, y - 4, "axis"))
    return Picture(width, y, joined(*parts))


def _bar(each: Bar, y: float, scale: Scale) -> Markup:
    begin, end, middle = scale.begin, scale.place(each.value), y + _BAR / 2
    parts, after = [bar(begin, y, end - begin, _BAR, each.class_)], end
    if each.low is not None and each.high is not None:
        low, high = scale.place(each.low), scale.place(each.high)
        parts += [line(low, middle, high, middle, "whisker"), line(low, middle - 4, low, middle + 4, "whisker")]
        if math.isfinite(each.high) and each.high <= scale.high:
            parts.append(line(high, middle - 4, high, middle + 4, "whisker"))
        after = max(after, high)
    if each.mark is not None:
        x = scale.place(each.mark)
        parts.append(line(x, y - 2, x, y + _BAR + 2, "least"))
        after = max(after, x)
    parts.append(label(after + 8, middle + 4, each.said, class_="ink number"))
    return joined(*parts)
