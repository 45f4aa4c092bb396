"""The ratio of each round of a proof, with the interval that they give."""

from collections.abc import Sequence

from edgeopt.commands.documents.blocks import Picture
from edgeopt.commands.documents.markup import joined, tag
from edgeopt.commands.report.charts.axes import bar, label, left_axis, line, scale_for
from edgeopt.measure.stats import Interval

_TOP, _FOOT, _LEFT, _HEIGHT = 10.0, 34.0, 44.0, 170.0


def draw(ratios: Sequence[float], interval: Interval, width: int) -> Picture:
    """Rounds to the right, how many times faster upwards; the band is the interval."""
    bottom, right = _TOP + _HEIGHT, width - 6.0
    scale = scale_for([*ratios, 1.0, interval.median], bottom, _TOP)
    high, low = scale.place(min(interval.high, scale.high)), scale.place(max(interval.low, scale.low))
    step = (right - _LEFT) / len(ratios)
    dots = [
        tag("circle", cx=_LEFT + (k + 0.5) * step, cy=scale.place(value), r=3.5, class_="result dot")
        for k, value in enumerate(ratios)
    ]
    median, one = scale.place(interval.median), scale.place(1.0)
    inside = joined(
        left_axis(scale, _LEFT, right, lambda value: f"{value:g}x"),
        bar(_LEFT, high, right - _LEFT, low - high, "band"),
        line(_LEFT, median, right, median, "result mark"),
        line(_LEFT, one, right, one, "base mark"),
        label(right, one - 5 if one > median else one + 15, "as fast as the baseline", "end"),
        *dots,
        label((_LEFT + right) / 2, bottom + 24, f"{len(ratios)} rounds, in their order", "middle"),
    )
    return Picture(width, bottom + _FOOT, inside)
