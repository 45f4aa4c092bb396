"""What a `Gauge` shows, as a record."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reading:
    """What a gauge shows at one moment."""

    name: str
    text: str
    """The value with its unit, and the text shown while it is unknown."""
    note: str = ""
    """In small letters below: of how much, or why it is not known."""
    value: float | None = None
    """For the curve; None leaves a gap."""
    top: float | None = None
    """The upper end of the curve's axis, from 0; None for the largest value so far."""
