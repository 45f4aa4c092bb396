"""The records that `FactsView` shows."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fact:
    name: str
    value: str
    source: str = ""
    """Source of the value, for the tooltip and for `show_sources`."""
    words: tuple[str, ...] = ()
    """Words shown one by one instead of the value."""
    copy: str = ""
    """Text that a button beside the value copies; "" for no button."""
    link: str = ""
    """Argument of the signal `FactsView.followed` on a click; "" makes the value plain text."""


@dataclass(frozen=True, slots=True)
class FactGroup:
    title: str
    facts: tuple[Fact, ...]
