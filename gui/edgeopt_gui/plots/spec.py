"""The description of a chart as records: panels one below the other, with their curves."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CurveSpec:
    key: str
    """The name of the metric."""
    label: str
    colour: int | None
    """Index for `theme.colours.series`; None for the muted colour of baselines."""
    tip: str = ""
    """Longer name for the tooltip."""


@dataclass(frozen=True, slots=True)
class PanelSpec:
    title: str
    unit: str
    curves: tuple[CurveSpec, ...]
    factor: float = 1.0
    """Factor that converts a value to the unit."""
    share: int = 1
    """Height of the panel relative to the other panels."""
    highest: float | None = None
    """End of the axis if it is fixed, as for percentages."""
    minimum: float | None = None
    """Smallest length of an axis that does not begin at 0."""
    small: tuple[str, float] | None = None
    """Unit and factor to use instead while the values are below 1 in the usual unit."""
    spread: tuple[str, str] | None = None
    """Keys of a low and a high curve; the axis becomes logarithmic while they are far apart."""


@dataclass(frozen=True, slots=True)
class Marker:
    """Something that happened, at a line over all panels."""

    time_s: float
    label: str


@dataclass(frozen=True, slots=True)
class Level:
    """A value to compare a curve with: a dashed line over the panel of `key`."""

    key: str
    value: float
    label: str
