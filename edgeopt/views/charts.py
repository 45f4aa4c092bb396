"""Charts as SVG: each is drawn for a width in pixels, in the colour classes of the page's style sheet."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from edgeopt.measure.stats import Interval
from edgeopt.views.blocks import Picture
from edgeopt.views.markup import Markup, joined, tag, text
from edgeopt.views.words import milliseconds, time_axis

LETTER_PX = 7.1
"""The width of a letter in the middle, at the size of text in charts."""
_ROUND = (1.0, 2.0, 5.0)
# Beyond this ratio of values, a linear scale would squeeze most of them into a corner.
_WIDE = 8.0


@dataclass(frozen=True, slots=True)
class ChartScale:
    """Mapping of values to places in pixels; `end` may lie before `begin`, as it does upwards."""

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

    def ticks(self, maximum: int) -> list[float]:
        """Round numbers within the range, at most this many."""
        found = self._decades() if self.logarithmic else []
        while len(found) > maximum:
            kept = [value for value in found if (abs(math.log10(value) - round(math.log10(value))) < 1e-9)]
            found = kept if len(kept) >= 2 and len(kept) < len(found) else found[::2]
        if len(found) < 2:
            found = _even(self.low, self.high, maximum)
        return found

    def _decades(self) -> list[float]:
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        # Through text, so that 3 * 10**-1 is 0.3.
        values = [float(f"{digit:g}e{power}") for power in powers for digit in _ROUND]
        return [value for value in values if self.low <= value <= self.high]


def scale_for(values: Sequence[float], begin: float, end: float, *, room: float = 0.06) -> ChartScale:
    """Returns a scale for all values with some margin; logarithmic if they are far apart."""
    low, high = min(values), max(values)
    if low > 0 and high / low > _WIDE:
        margin = (high / low) ** room
        return ChartScale(low / margin, high * margin, begin, end, logarithmic=True)
    margin = max(high - low, abs(high) * 0.02, 1e-12) * room
    return ChartScale(low - margin, high + margin, begin, end)


def _even(low: float, high: float, maximum: int) -> list[float]:
    """Multiples of a round step: the fewest that are at least two, or as many as there may be."""
    power = math.floor(math.log10(high - low))
    steps = [float(f"{digit:g}e{p}") for p in (power, power - 1, power - 2) for digit in (5, 2, 1)]
    best: list[float] = []
    for step in steps:
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        found = [float(f"{k * step:.12g}") for k in range(first, last + 1)]
        if len(found) > max(2, maximum):
            break
        best = found
    return best


def label(x: float, y: float, words: str, anchor: str = "start", class_: str = "soft") -> Markup:
    return tag("text", text(words), x=x, y=y, text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str = "grid") -> Markup:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def bar(x: float, y: float, width: float, height: float, class_: str) -> Markup:
    return tag("rect", x=x, y=y, width=max(0.0, width), height=height, rx=1.5, class_=class_)


def _bottom_axis(
    scale: ChartScale, top: float, bottom: float, named: Callable[[float], str], title: str = ""
) -> Markup:
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


def _left_axis(scale: ChartScale, left: float, right: float, named: Callable[[float], str]) -> Markup:
    marks = []
    for value in scale.ticks(5):
        y = scale.place(value)
        marks += [line(left, y, right, y), label(left - 8, y + 4, named(value), "end")]
    return joined(*marks)


def shortened(words: str, room_px: float) -> str:
    """Cut in the middle where it is too long: both ends of a name tell it from others."""
    maximum = max(6, int(room_px / LETTER_PX))
    if len(words) <= maximum:
        return words
    return f"{words[: (maximum - 1) // 2]}…{words[-(maximum // 2) :]}"


_BAR, _SPACE, _GROUP = 16.0, 6.0, 10.0
_NARROW = 500
"""Below this width names stand over their bars."""
_MAX_NAME = 0.34


@dataclass(frozen=True, slots=True)
class Bar:
    value: float
    class_: str
    label_text: str
    low: float | None = None
    """Lower end of the interval of the value; `high` is its upper end."""
    high: float | None = None
    mark: float | None = None
    """A value to hold it against, as a tick."""


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    bars: tuple[Bar, ...]


def draw_bars(groups: Sequence[Group], width: int) -> Picture:
    """Draws bars that begin at 0, so that their lengths compare; a label follows each bar."""
    narrow = width < _NARROW
    labels = max((len(each.label_text) for group in groups for each in group.bars), default=0) * LETTER_PX + 12
    names = 0.0 if narrow else min(_MAX_NAME * width, max(len(g.name) for g in groups) * LETTER_PX + 12)
    ends = [value for g in groups for b in g.bars for value in (b.value, b.high, b.mark) if value is not None]
    highest = max((value for value in ends if math.isfinite(value)), default=1.0)
    max_bars = max((b.value for g in groups for b in g.bars), default=1.0)
    # An interval without an end must not shrink every bar to nothing.
    top = min(highest, 1.6 * max_bars) or 1.0
    scale = ChartScale(0.0, top, names, width - labels)
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


def _bar(each: Bar, y: float, scale: ChartScale) -> Markup:
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
    parts.append(label(after + 8, middle + 4, each.label_text, class_="ink number"))
    return joined(*parts)


_HILL, _HEAD, _GAP, _HILLS_FOOT = 52.0, 20.0, 10.0, 40.0
_STEPS = 90
_DRAWN = 0.95
_SMOOTH = 1.6
"""The deviation, in steps, of what the counts are smoothed with."""


@dataclass(frozen=True, slots=True)
class Hill:
    name: str
    quantiles_ms: tuple[float, ...]
    class_: str


def draw_hills(hills: Sequence[Hill], width: int) -> Picture:
    # The slowest of many runs was some other process: it would press all the rest into the left edge.
    ends = [value for hill in hills for value in (hill.quantiles_ms[0], _at(hill.quantiles_ms, _DRAWN))]
    scale = scale_for(ends, 4, width - 4)
    bottom = len(hills) * (_HEAD + _HILL + _GAP)
    parts = [_bottom_axis(scale, 0, bottom, time_axis(scale.high), "one run")]
    for place, hill in enumerate(hills):
        parts.append(_hill(hill, scale, place * (_HEAD + _HILL + _GAP), width))
    return Picture(width, bottom + _HILLS_FOOT, joined(*parts))


def _hill(hill: Hill, scale: ChartScale, top: float, width: int) -> Markup:
    base = top + _HEAD + _HILL
    xs, heights = _shape(hill.quantiles_ms, scale)
    points = " ".join(f"{x:.1f},{base - h * _HILL:.1f}" for x, h in zip(xs, heights, strict=True))
    median = _at(hill.quantiles_ms, 0.5)
    x = scale.place(median)
    words = f"{hill.name}: median {milliseconds(median)}"
    return joined(
        tag(
            "polygon",
            points=f"{xs[0]:.1f},{base:.1f} {points} {xs[-1]:.1f},{base:.1f}",
            class_=f"{hill.class_} hill",
        ),
        line(x, top + _HEAD - 4, x, base, f"{hill.class_} mark"),
        line(0, base, width, base, "axis"),
        label(4, top + 13, words, class_="ink"),
    )


def _shape(quantiles_ms: Sequence[float], scale: ChartScale) -> tuple[list[float], list[float]]:
    """Places and heights between 0 and 1; any two quantiles in a row have as many runs between them."""
    ends = np.array([scale.place(value) for value in quantiles_ms])
    edges = np.linspace(min(scale.begin, scale.end), max(scale.begin, scale.end), _STEPS + 1)
    below = np.interp(edges, ends, np.linspace(0, 1, len(ends)), left=0, right=1)
    counts = np.diff(below)
    reach = np.arange(-5, 6)
    kernel = np.exp(-0.5 * (reach / _SMOOTH) ** 2)
    smooth = np.convolve(counts, kernel / kernel.sum(), mode="same")
    return ((edges[:-1] + edges[1:]) / 2).tolist(), (smooth / (smooth.max() or 1.0)).tolist()


def _at(quantiles_ms: Sequence[float], share: float) -> float:
    return float(np.interp(share, np.linspace(0, 1, len(quantiles_ms)), quantiles_ms))


_ROUNDS_TOP, _ROUNDS_FOOT, _ROUNDS_LEFT, _ROUNDS_HEIGHT = 10.0, 34.0, 44.0, 170.0


def draw_rounds(ratios: Sequence[float], interval: Interval, width: int) -> Picture:
    """Rounds to the right, how many times faster upwards; the band is the interval."""
    bottom, right = _ROUNDS_TOP + _ROUNDS_HEIGHT, width - 6.0
    scale = scale_for([*ratios, 1.0, interval.median], bottom, _ROUNDS_TOP)
    high, low = scale.place(min(interval.high, scale.high)), scale.place(max(interval.low, scale.low))
    step = (right - _ROUNDS_LEFT) / len(ratios)
    dots = [
        tag("circle", cx=_ROUNDS_LEFT + (k + 0.5) * step, cy=scale.place(value), r=3.5, class_="result dot")
        for k, value in enumerate(ratios)
    ]
    median, one = scale.place(interval.median), scale.place(1.0)
    inside = joined(
        _left_axis(scale, _ROUNDS_LEFT, right, lambda value: f"{value:g}x"),
        bar(_ROUNDS_LEFT, high, right - _ROUNDS_LEFT, low - high, "band"),
        line(_ROUNDS_LEFT, median, right, median, "result mark"),
        line(_ROUNDS_LEFT, one, right, one, "base mark"),
        label(right, one - 5 if one > median else one + 15, "as fast as the baseline", "end"),
        *dots,
        label((_ROUNDS_LEFT + right) / 2, bottom + 24, f"{len(ratios)} rounds, in their order", "middle"),
    )
    return Picture(width, bottom + _ROUNDS_FOOT, inside)


_TOP, _FOOT, _LEFT, _HEIGHT = 22.0, 42.0, 60.0, 280.0


@dataclass(frozen=True, slots=True)
class ChartDot:
    x: float
    y: float
    class_: str
    shape: str = "circle"
    says: str = ""
    """The text of its tooltip."""
    radius: float = 4.5
    name: str = ""
    """Written beside it."""


@dataclass(frozen=True, slots=True)
class Path:
    """A line through points, over the grid and under the dots."""

    points: tuple[tuple[float, float], ...]
    class_: str
    name: str = ""
    """Written over its end; of one that slopes, beside its begin."""
    slopes: bool = False


@dataclass(frozen=True, slots=True)
class Axes:
    across: ChartScale
    up: ChartScale
    across_title: str
    up_title: str
    across_named: Callable[[float], str]
    up_named: Callable[[float], str]


def plot_area(width: int) -> tuple[float, float, float, float]:
    """Left, right, bottom and top of where points may lie."""
    return _LEFT, width - 12.0, _TOP + _HEIGHT, _TOP


def draw_points(axes: Axes, dots: Sequence[ChartDot], paths: Sequence[Path], width: int) -> Picture:
    left, right, bottom, top = plot_area(width)
    parts = [
        _bottom_axis(axes.across, top, bottom, axes.across_named, axes.across_title),
        _left_axis(axes.up, left, right, axes.up_named),
        line(left, bottom, right, bottom, "axis"),
        label(0, 12, axes.up_title),
        *(_path(axes, each, right) for each in paths),
        *(_dot(axes, each, right) for each in dots),
    ]
    return Picture(width, bottom + _FOOT, joined(*parts))


def _path(axes: Axes, path: Path, right: float) -> Markup:
    places = [(axes.across.place(x), axes.up.place(y)) for x, y in path.points]
    drawn = tag("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in places), class_=path.class_)
    if not path.name:
        return drawn
    if path.slopes:
        x, y = places[0]
        return joined(drawn, label(x + 4, y - 9, path.name))
    x, y = places[-1]
    return joined(drawn, label(min(x, right), y - 5, path.name, "end"))


def _dot(axes: Axes, dot: ChartDot, right: float) -> Markup:
    x, y = axes.across.place(dot.x), axes.up.place(dot.y)
    tooltip = (tag("title", text(dot.says)),) if dot.says else ()
    drawn = tag("g", *tooltip, _marker(dot, x, y))
    if not dot.name:
        return drawn
    space = len(dot.name) * LETTER_PX + 10
    anchor, at = ("end", x - 9) if x + space > right else ("start", x + 9)
    return joined(drawn, label(at, y - 8, dot.name, anchor, "ink strong"))


def _marker(dot: ChartDot, x: float, y: float) -> Markup:
    r = dot.radius
    points: tuple[tuple[float, float], ...]
    if dot.shape == "square":
        return tag("rect", x=x - r * 0.9, y=y - r * 0.9, width=r * 1.8, height=r * 1.8, class_=dot.class_)
    if dot.shape == "triangle":
        points = ((x, y - r * 1.15), (x + r * 1.1, y + r * 0.85), (x - r * 1.1, y + r * 0.85))
    elif dot.shape == "diamond":
        points = ((x, y - r * 1.25), (x + r * 1.25, y), (x, y + r * 1.25), (x - r * 1.25, y))
    else:
        return tag("circle", cx=x, cy=y, r=r, class_=dot.class_)
    return tag("polygon", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in points), class_=dot.class_)
