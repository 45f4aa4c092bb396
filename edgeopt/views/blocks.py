"""Content of commands and reports, independent of format: sections of sentences, tables, figures and charts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from edgeopt.errors import legible, printable
from edgeopt.views.words import share

if TYPE_CHECKING:
    from edgeopt.views.markup import Markup

Mood = Literal["", "good", "bad", "warning", "faint", "strong", "accent"]
"""Emphasis by colour; the text says the same to readers who cannot see it."""


class WordsBlock(msgspec.Struct, frozen=True):
    text: str
    mood: Mood = ""


class Listed(msgspec.Struct, frozen=True):
    """Short things below each other."""

    items: tuple[str, ...]
    numbered: bool = False


Kind = Literal["text", "name", "figure", "mark"]
"""Figures stand right, so that their digits do. They and marks are never folded; texts are before names."""


class Column(msgspec.Struct, frozen=True):
    title: str
    kind: Kind = "text"
    group: str = ""
    """Columns of one group stay beside each other where there is no room for all."""

    @property
    def right(self) -> bool:
        return self.kind == "figure"


class Marked(msgspec.Struct, frozen=True):
    """A cell that is set off from its row."""

    text: str
    mood: Mood = ""
    strong: bool = False


class Share(msgspec.Struct, frozen=True):
    """A cell with a part of a whole, which a terminal draws as a bar too."""

    value: float


Cell = str | Marked | Share


class Row(msgspec.Struct, frozen=True):
    cells: tuple[Cell, ...]
    """Cells of the first columns; a row of a single cell is a title within the table."""
    mood: Mood = ""
    apart: bool = False
    """Something else begins here."""


class Table(msgspec.Struct, frozen=True):
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    caption: str = ""


class Figure(msgspec.Struct, frozen=True):
    """One number that matters, with what it is and what to hold it against."""

    label: str
    value: str
    note: str = ""
    mood: Mood = ""


class Figures(msgspec.Struct, frozen=True):
    figures: tuple[Figure, ...]


class Picture(msgspec.Struct, frozen=True):
    """A chart as it was drawn for a width in pixels: the inside of an SVG."""

    width: int
    height: float
    inside: "Markup"


class Chart(msgspec.Struct, frozen=True):
    title: str
    says: str
    """Description of the chart for readers who do not see it."""
    draw: Callable[[int], Picture]
    """Function that draws the chart for a width in pixels: desktop and mobile pages need different drawings."""
    caption: str = ""


class Drawing(msgspec.Struct, frozen=True):
    draw: Callable[[int, bool], list[str]]
    """Function that draws for a width in letters, and whether they must be ASCII."""


class Commands(msgspec.Struct, frozen=True):
    """Lines for a terminal, each with what it does."""

    lines: tuple[tuple[str, str], ...]


class Folded(msgspec.Struct, frozen=True):
    """Blocks that are folded until the reader opens them."""

    summary: str
    blocks: tuple["Block", ...]


class Section(msgspec.Struct, frozen=True):
    key: str
    """Address of the section within the page."""
    title: str
    """Empty where it only stands apart from what is around it."""
    blocks: tuple["Block", ...]


Block = WordsBlock | Listed | Table | Figures | Chart | Drawing | Commands | Folded | Section


def section(title: str, *blocks: Block | None) -> Section:
    """A part with a title; None entries are left out."""
    return Section("", title, tuple(block for block in blocks if block is not None))


def lines(texts: Iterable[str], mood: Mood = "") -> tuple[WordsBlock, ...]:
    return tuple(WordsBlock(each, mood) for each in texts if each)


def warnings(texts: Iterable[str]) -> tuple[WordsBlock, ...]:
    return lines((f"warning: {each}" for each in texts), "warning")


def some(names: Sequence[str], shown: int, mark: str = ", ") -> str:
    """The first ones, and how many more."""
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return f"{mark.join(names[:shown])}{more}"


def columns(*titles: str) -> tuple[Column, ...]:
    """Returns columns by their titles: a leading `>` makes a column of figures, `=` of names, `!` of marks."""
    kinds: dict[str, Kind] = {">": "figure", "=": "name", "!": "mark"}
    return tuple(Column(each[1:], kinds[each[0]]) if each[:1] in kinds else Column(each) for each in titles)


def rows(*cells: tuple[str, ...]) -> tuple[Row, ...]:
    return tuple(Row(each) for each in cells)


Item = TypeVar("Item")
AnyBlock = TypeVar("AnyBlock", bound=Block)


def table_of(items: Iterable[Item], *says: tuple[str, Callable[[Item], Cell]], caption: str = "") -> Table:
    """A row for each item; each column is a title and a function from an item to its cell."""
    found = (Row(tuple(say(item) for _, say in says)) for item in items)
    return Table(columns(*(title for title, _ in says)), tuple(found), caption)


def facts(pairs: Iterable[tuple[str, str]]) -> Table:
    """Returns a table of names and values without column titles; unknown values are omitted."""
    return Table(columns("=", ""), rows(*((name, value) for name, value in pairs if value)))


def filled(table: Table) -> Table:
    """Returns the table without columns that are empty in every row; the first column always stays."""
    kept = [k for k in range(len(table.columns)) if k == 0 or any(text_of(row, k) for row in table.rows)]
    found = (
        Row(tuple(row.cells[k] for k in kept if k < len(row.cells)), row.mood, row.apart) for row in table.rows
    )
    return Table(tuple(table.columns[k] for k in kept), tuple(found), table.caption)


def text_of(row: Row, place: int) -> str:
    """Returns the text of a cell; empty if the row has no such cell."""
    if place >= len(row.cells):
        return ""
    cell = row.cells[place]
    return cell if isinstance(cell, str) else share(cell.value) if isinstance(cell, Share) else cell.text


def legible_blocks(shown: Iterable[AnyBlock]) -> Iterator[AnyBlock]:
    """Yields blocks as every writer shows them: nothing in a text controls a terminal or a page, or floods it."""
    return map(_legible, shown)


def _legible(value: Any) -> Any:  # noqa: ANN401 - blocks of any kind, and their values
    match value:
        case str():
            return legible(value)
        case tuple():
            return tuple(map(_legible, value))
        case Commands():  # escaped only: one that is cut would be another command
            return Commands(tuple((legible(why), printable(line)) for why, line in value.lines))
        case Drawing():
            return Drawing(lambda width, ascii_only: [*map(printable, value.draw(width, ascii_only))])
        case msgspec.Struct():
            return type(value)(*(_legible(getattr(value, name)) for name in value.__struct_fields__))
    return value


def mood_of(row: Row, place: int) -> Mood:
    """Returns the mood of a cell; empty if it has none of its own."""
    cell = row.cells[place] if place < len(row.cells) else ""
    return cell.mood if isinstance(cell, Marked) else ""


def is_strong(row: Row, place: int) -> bool:
    cell = row.cells[place] if place < len(row.cells) else ""
    return "strong" in {row.mood, mood_of(row, place)} or (isinstance(cell, Marked) and cell.strong)
