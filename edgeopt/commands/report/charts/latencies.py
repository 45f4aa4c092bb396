"""How the latencies of single runs lie: one hill for each side, all over one axis."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgeopt.commands.documents.blocks import Picture
from edgeopt.commands.documents.markup import Markup, joined, tag
from edgeopt.commands.report.charts.axes import Scale, bottom_axis, label, line, scale_for
from edgeopt.commands.report.words import milliseconds, time_axis

_HILL, _HEAD, _GAP, _FOOT = 52.0, 20.0, 10.0, 40.0
_STEPS = 90
_DRAWN = 0.95
_SMOOTH = 1.6
"""The deviation, in steps, of what the counts are smoothed with."""


@dataclass(frozen=True, slots=True)
class Hill:
    name: str
    quantiles_ms: tuple[float, ...]
    class_: str


def draw(hills: Sequence[Hill], width: int) -> Picture:
    # The slowest of many runs was some other process: it would press all the rest into the left edge.
    ends = [value for hill in hills for value in (hill.quantiles_ms[0], _at(hill.quantiles_ms, _DRAWN))]
    scale = scale_for(ends, 4, width - 4)
    bottom = len(hills) * (_HEAD + _HILL + _GAP)
    parts = [bottom_axis(scale, 0, bottom, time_axis(scale.high), "one run")]
    for place, hill in enumerate(hills):
        parts.append(_hill(hill, scale, place * (_HEAD + _HILL + _GAP), width))
    return Picture(width, bottom + _FOOT, joined(*parts))


def _hill(hill: Hill, scale: Scale, top: float, width: int) -> Markup:
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


def _shape(quantiles_ms: Sequence[float], scale: Scale) -> tuple[list[float], list[float]]:
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
