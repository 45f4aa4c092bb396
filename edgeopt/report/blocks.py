"""What a report is made of, whatever it is written as: sections of sentences, tables, figures and charts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from edgeopt.report.markup import Markup

Mood = Literal["", "good", "bad", "faint", "strong"]
"""How something is set off; whoever cannot see that reads the same in its words."""


@dataclass(frozen=True, slots=True)
class Words:
    """A paragraph."""

    text: str
    kind: Literal["plain", "note", "warning"] = "plain"


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    right: bool = False
    """Numbers stand right, so that their digits do."""


@dataclass(frozen=True, slots=True)
class Row:
    cells: tuple[str, ...]
    mood: Mood = ""


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that matters, with what it is and what to hold it against."""

    label: str
    value: str
    note: str = ""
    mood: Mood = ""


@dataclass(frozen=True, slots=True)
class Figures:
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart as it was drawn for a width in pixels: the inside of an SVG."""

    width: int
    height: float
    inside: Markup


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    says: str
    """What can be seen in it, for those who do not see it."""
    draw: Callable[[int], Picture]
    """For a width in pixels: a page for the desk and one for the hand need unlike drawings."""
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Commands:
    """Lines for a terminal, each with what it does."""

    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Folded:
    """What is there for those who ask."""

    summary: str
    blocks: tuple["Block", ...]


Block = Words | Table | Figures | Chart | Commands | Folded


@dataclass(frozen=True, slots=True)
class Section:
    key: str
    """Its address within the page."""
    title: str
    blocks: tuple[Block, ...]


def columns(*titles: str) -> tuple[Column, ...]:
    """Those whose title begins with `>` stand right."""
    return tuple(Column(title.removeprefix(">"), title.startswith(">")) for title in titles)


def rows(*cells: tuple[str, ...]) -> tuple[Row, ...]:
    return tuple(Row(each) for each in cells)
