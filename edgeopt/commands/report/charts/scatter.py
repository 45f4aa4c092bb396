"""Points between two scales: the frontier of candidates, and the roofline of kernels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgeopt.commands.documents.blocks import Picture
from edgeopt.commands.documents.markup import Markup, joined, tag, text
from edgeopt.commands.report.charts.axes import LETTER_PX, Scale, bottom_axis, label, left_axis, line

_TOP, _FOOT, _LEFT, _HEIGHT = 22.0, 42.0, 60.0, 280.0


@dataclass(frozen=True, slots=True)
class Dot:
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
    across: Scale
    up: Scale
    across_title: str
    up_title: str
    across_named: Callable[[float], str]
    up_named: Callable[[float], str]


def room(width: int) -> tuple[float, float, float, float]:
    """Left, right, bottom and top of where points may lie."""
    return _LEFT, width - 12.0, _TOP + _HEIGHT, _TOP


def draw(axes: Axes, dots: Sequence[Dot], paths: Sequence[Path], width: int) -> Picture:
    left, right, bottom, top = room(width)
    parts = [
        bottom_axis(axes.across, top, bottom, axes.across_named, axes.across_title),
        left_axis(axes.up, left, right, axes.up_named),
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


def _dot(axes: Axes, dot: Dot, right: float) -> Markup:
    x, y = axes.across.place(dot.x), axes.up.place(dot.y)
    told = (tag("title", text(dot.says)),) if dot.says else ()
    drawn = tag("g", *told, _shape(dot, x, y))
    if not dot.name:
        return drawn
    space = len(dot.name) * LETTER_PX + 10
    anchor, at = ("end", x - 9) if x + space > right else ("start", x + 9)
    return joined(drawn, label(at, y - 8, dot.name, anchor, "ink strong"))


def _shape(dot: Dot, x: float, y: float) -> Markup:
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
