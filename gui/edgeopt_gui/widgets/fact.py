"""What `FactsView` shows, as records."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fact:
    name: str
    value: str
    source: str = ""
    """Where it comes from, for the tip and for `show_sources`."""
    words: tuple[str, ...] = ()
    """Shown each by itself, instead of the value."""
    copy: str = ""
    """What a button beside it copies."""
    link: str = ""
    """What `FactsView.followed` tells when the value is clicked; without one it is plain text."""


@dataclass(frozen=True, slots=True)
class FactGroup:
    title: str
    facts: tuple[Fact, ...]
