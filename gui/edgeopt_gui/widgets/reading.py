"""The record that a `Gauge` shows."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reading:
    """The value that a gauge shows at one moment."""

    name: str
    text: str
    """The value with its unit, and the text shown while it is unknown."""
    note: str = ""
    """Small text below: the total, or the reason why the value is unknown."""
    value: float | None = None
    """Value of the curve; None interrupts the curve."""
    top: float | None = None
    """The upper end of the curve's axis, from 0; None for the largest value so far."""
