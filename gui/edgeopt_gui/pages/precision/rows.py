"""A plan of precision as the page shows it: its points between accuracy and speed, and the rows of its layers."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from edgeopt.views.words import decibels, milliseconds, ratio

FLOAT = "float"


class PlanPoint(NamedTuple):
    """A choice of schemes on the frontier between accuracy and speed."""

    choices: Mapping[str, str]
    """Schemes by layer; layers that are missing stay float."""
    schemes: str
    """The number of layers in each scheme: `13 int8, 7 int8-groups`."""
    expected_ms: float
    expected_db: float
    measured_db: float | None = None
    """Signal-to-noise ratio in a run of the whole model; None if it was not run."""
    low_db: float | None = None
    speedup: float | None = None
    """Measured speedup over the float model on the same backend; None if it was not measured."""
    chosen: bool = False

    @property
    def measured(self) -> bool:
        return self.measured_db is not None

    @property
    def shown_db(self) -> float:
        """The measured ratio, or else the expected one."""
        return self.expected_db if self.measured_db is None else self.measured_db


class LayerFacts(NamedTuple):
    """A layer with the scheme that the chosen plan has for it."""

    name: str
    scheme: str
    reason: str
    error_db: float | None
    saves_ms: float | None


class PlanReport(NamedTuple):
    summary: str
    lines: tuple[str, ...] = ()
    """Sentences on the backend, the proof, the samples and the size."""
    interval: tuple[float, float, float] | None = None
    """Low end, median and high end of the measured speedup; None if it is not usable."""
    speedup: str = ""
    points: tuple[PlanPoint, ...] = ()
    floor_db: float | None = None
    layers: tuple[LayerFacts, ...] = ()
    errors_db: Mapping[tuple[str, str], float] = MappingProxyType({})
    """Signal-to-noise ratio by layer and scheme, with that layer alone."""
    savings_ms: Mapping[tuple[str, str], float] = MappingProxyType({})
    notes: tuple[str, ...] = ()
    """Warnings and findings."""
    files: tuple[str, ...] = ()

    @property
    def chosen(self) -> int:
        """The index of the chosen point; 0 if there is none."""
        return next((index for index, point in enumerate(self.points) if point.chosen), 0)


class LayerRow(NamedTuple):
    name: str
    scheme: str
    error_db: float | None
    saves_ms: float | None
    reason: str

    @property
    def stays_float(self) -> bool:
        return self.scheme == FLOAT


def layer_rows(report: PlanReport, point: PlanPoint | None) -> tuple[LayerRow, ...]:
    """Returns the layers in the schemes of a point, the most costly first; without one, in those of the plan."""
    rows = [_row(report, layer, point) for layer in report.layers]
    return tuple(sorted(rows, key=lambda row: float("inf") if row.error_db is None else row.error_db))


def _row(report: PlanReport, layer: LayerFacts, point: PlanPoint | None) -> LayerRow:
    scheme = layer.scheme if point is None or point.chosen else point.choices.get(layer.name, FLOAT)
    if scheme == layer.scheme:
        return LayerRow(layer.name, scheme, layer.error_db, layer.saves_ms, layer.reason)
    key = (layer.name, scheme)
    reason = f"In the chosen plan: {layer.reason}"
    return LayerRow(layer.name, scheme, report.errors_db.get(key), report.savings_ms.get(key), reason)


def point_line(report: PlanReport, index: int) -> str:
    """Returns a point of the frontier in one line: schemes, time and accuracy, and whether they are measured."""
    point = report.points[index]
    full_ms = max(each.expected_ms for each in report.points)
    parts = [
        f"Plan {index + 1} of {len(report.points)}{', the chosen one' if point.chosen else ''}",
        point.schemes or "all layers float",
    ]
    if point.expected_ms > 0:
        parts.append(f"{milliseconds(point.expected_ms)} and {ratio(full_ms / point.expected_ms)} expected")
    if point.speedup is not None:
        parts.append(f"{ratio(point.speedup)} measured")
    if point.measured_db is not None:
        low = "" if point.low_db is None else f", at least {decibels(point.low_db)} on other samples"
        parts.append(f"{decibels(point.measured_db)} measured{low}")
    elif point.choices:
        parts.append(f"{decibels(point.expected_db)} expected")
    else:
        parts.append("outputs equal")
    return " · ".join(parts)
