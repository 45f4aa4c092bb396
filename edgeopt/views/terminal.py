"""Blocks on a terminal: it lays out tables within the width that there is, and cuts only what is overlong."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from edgeopt.views import blocks

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_STYLES: dict[blocks.Mood, str] = {
    "": "", "good": "green", "bad": "bold red", "warning": "yellow", "faint": "dim", "strong": "bold",
    "accent": "cyan",
}  # fmt: skip
_WIDEST_DRAWING = 110
_BAR = 20
_ROOM_FOR_BARS = 100
"""On narrower terminals they make room for what is written."""
_MIN = {"text": 10, "name": 12}
"""Minimum width in letters of the kinds of columns that may shrink; the others never do."""
_LONGEST_WORD = 20
_COMMAND = re.compile(r"(?:(?<=: )|(?<=[`(]))edgeopt(?:-agent)? [a-z](?:'[^']*'|[^`;),.]|[),.](?! |$))*")
_JOINT = "\ue000"
"""Character that replaces each space at which a command must not be folded."""
_GAP, _NARROW_GAP = 2, 1
_INDENT = "  "


def write(shown: Iterable[blocks.Block], console: "Console") -> None:
    """Writes all blocks in their order; an empty line sets sections apart."""
    _write(blocks.legible_blocks(shown), console)


def _write(shown: Iterable[blocks.Block], console: "Console") -> None:
    before: blocks.Block | None = None
    for block in shown:
        if isinstance(block, blocks.Section) and not block.blocks:
            continue
        if isinstance(before, blocks.Section | blocks.Commands) or (before and isinstance(block, blocks.Section)):
            console.print()
        _block(block, console)
        before = block


def _block(block: blocks.Block, console: "Console") -> None:
    match block:
        case blocks.Table():
            _table(block, console)
        case blocks.Drawing():
            for line in block.draw(
                min(console.width, _WIDEST_DRAWING), not console.encoding.lower().startswith("utf")
            ):
                console.print(line, markup=False, soft_wrap=True)
        case blocks.Commands():
            for why, command in block.lines:
                if why:
                    _line(why, console)
                # Never broken into lines, so that it can be copied.
                console.print(f"{_INDENT}{command}", style=_STYLES["accent"], markup=False, soft_wrap=True)
        case blocks.Folded():
            _line(block.summary, console, "bold")
            _write(block.blocks, console)
        case blocks.Section():
            if block.title:
                _line(block.title, console, "bold")
            _write(block.blocks, console)
        case _:
            for text, mood, lead in _lines(block):
                _line(text, console, _STYLES[mood], lead)


def _lines(
    block: blocks.WordsBlock | blocks.Listed | blocks.Figures | blocks.Chart,
) -> Iterator[tuple[str, blocks.Mood, str]]:
    """Yields the text, the mood and the prefix of each line, for blocks that consist of lines only."""
    match block:
        case blocks.WordsBlock():
            yield block.text, block.mood, ""
        case blocks.Listed():
            for number, item in enumerate(block.items, 1):
                yield item, "", f"{_INDENT}{number}. " if block.numbered else f"{_INDENT}• "
        case blocks.Figures():
            for each in block.figures:
                yield f"{each.label}: {each.value}{f' ({each.note})' if each.note else ''}", each.mood, ""
        case blocks.Chart():
            yield f"{block.title}: {block.says}", "", ""


def _line(text: str, console: "Console", style: str = "", lead: str = "") -> None:
    """Folds at words but not within commands, so that they can be copied; what goes on is set in."""
    from rich.text import Text

    indent = " " * len(lead) or _INDENT
    for paragraph in text.split("\n"):
        whole = Text(lead + paragraph, style)
        room = max(20, console.width - len(indent))
        joined = _COMMAND.sub(lambda command: command[0].replace(" ", _JOINT), paragraph)
        overlong = _JOINT in joined and any(_JOINT in word and len(word) > room for word in joined.split())
        if whole.cell_len <= console.width or overlong:
            console.print(whole, soft_wrap=True)
            continue
        for place, part in enumerate(Text(joined, style).wrap(console, room)):
            part.rstrip()
            plain = Text((indent if place else lead) + part.plain.replace(_JOINT, " "), style)
            console.print(plain, soft_wrap=True)


def _table(table: blocks.Table, console: "Console") -> None:
    for number, group in enumerate(_fitting(table, console.width)):
        if number:
            console.print()
        shown = [
            row
            for row in table.rows
            if number == 0 or len(row.cells) == 1 or any(blocks.text_of(row, k) for k in group[1:])
        ]
        _print(table, shown, group, console)
    if table.caption:
        _line(table.caption, console, "dim")


def _fitting(table: blocks.Table, width: int) -> Iterator[list[int]]:
    """The places of columns that fit beside each other, each time with the first, which names the rows."""
    minimum = [_min_width(table, place) + _NARROW_GAP for place in range(len(table.columns))]
    room = width + _NARROW_GAP
    shown = [0]
    for _, places in groupby(range(1, len(minimum)), lambda place: table.columns[place].group or place):
        group = list(places)
        if len(shown) > 1 and sum(minimum[p] for p in (0, *group)) <= room < sum(
            minimum[p] for p in (*shown, *group)
        ):
            yield shown
            shown = [0]
        for place in group:
            if len(shown) > 1 and sum(minimum[p] for p in (*shown, place)) > room:
                yield shown
                shown = [0]
            shown.append(place)
    yield shown


def _min_width(table: blocks.Table, place: int) -> int:
    column = table.columns[place]
    content_width = max((_width(blocks.text_of(row, place)) for row in table.rows), default=0)
    if column.kind in _MIN:
        return min(_MIN[column.kind], max(content_width, _width(column.title)))
    return max(content_width, *map(_width, _two_lines(column.title)))


def _width(text: str) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, text.split("\n")))


def _longest_word(text: str) -> int:
    return min(_LONGEST_WORD, max(map(_width, text.split()), default=0))


def _two_lines(title: str) -> list[str]:
    """Cut at the space that leaves the shorter ends."""
    cuts = [k for k, letter in enumerate(title) if letter == " "]
    if not cuts:
        return [title]
    cut = min(cuts, key=lambda k: max(k, len(title) - k - 1))
    return [title[:cut], title[cut + 1 :]]


def _print(table: blocks.Table, rows: Sequence[blocks.Row], places: Sequence[int], console: "Console") -> None:
    from rich.table import Table as Grid
    from rich.text import Text

    columns = [table.columns[place] for place in places]
    widths, gap, titles = _laid_out(columns, rows, places, console.width)
    left = console.width - sum(widths) - gap * (len(widths) - 1)
    bars = _bars(rows, places, left if console.width >= _ROOM_FOR_BARS else 0)
    named = any(titles)
    grid = Grid(box=None, pad_edge=False, padding=(0, gap, 0, 0), show_header=named)
    for place, column, width, title in zip(places, columns, widths, titles, strict=True):
        style = "bold" if column.kind == "name" and not named else ""
        # Text, because names may hold brackets, which rich would take for its mark-up.
        grid.add_column(
            Text(title), justify="right" if column.right else "left", width=width, overflow="fold", style=style
        )
        if place in bars:
            grid.add_column("", width=bars[place])
    longest = {place: max(_share(row, place) for row in rows) or 1.0 for place in bars}
    for row in rows:
        if row.apart:
            grid.add_row()
        cells: list[Text] = []
        for place in places:
            cells.append(_cell(row, place))
            if place in bars:
                cells.append(Text(bar(_share(row, place) / longest[place], bars[place]), "cyan"))
        grid.add_row(*cells, style=_STYLES[row.mood])
    console.print(grid)


def _laid_out(
    columns: Sequence[blocks.Column], rows: Sequence[blocks.Row], places: Sequence[int], width: int
) -> tuple[list[int], int, list[str]]:
    """Widths, the gap between columns and titles: titles take two lines and texts fold where they must."""
    content_widths = [max((_width(blocks.text_of(row, place)) for row in rows), default=0) for place in places]
    titles = [column.title for column in columns]
    widths = [max(content_widths[k], _width(title)) for k, title in enumerate(titles)]
    if sum(widths) + _GAP * (len(widths) - 1) <= width:
        return widths, _GAP, titles
    titles = [t if _width(t) <= content_widths[k] else "\n".join(_two_lines(t)) for k, t in enumerate(titles)]
    widths = [max(content_widths[k], _width(title)) for k, title in enumerate(titles)]
    words = [max((_longest_word(blocks.text_of(row, place)) for row in rows), default=0) for place in places]
    # Words in one piece are worth more than air between columns.
    for gap, room_for in ((_GAP, words), (_NARROW_GAP, words), (_NARROW_GAP, [0] * len(words))):
        room = width - gap * (len(widths) - 1)
        for kind, minimum in _MIN.items():
            giving = [k for k, column in enumerate(columns) if column.kind == kind]
            while sum(widths) > room and (wide := [k for k in giving if widths[k] > max(minimum, room_for[k])]):
                widths[max(wide, key=lambda k: widths[k])] -= 1
        if sum(widths) <= room:
            break
    return widths, gap, titles


def _bars(rows: Sequence[blocks.Row], places: Sequence[int], room: int) -> dict[int, int]:
    """Returns the width of the bars of each column of shares; empty if there is no room for readable bars."""
    found = [
        p for p in places if any(p < len(row.cells) and isinstance(row.cells[p], blocks.Share) for row in rows)
    ]
    each = min(_BAR, room // len(found) - _GAP) if found else 0
    return dict.fromkeys(found, each) if each >= _BAR // 4 else {}


def _share(row: blocks.Row, place: int) -> float:
    cell = row.cells[place] if place < len(row.cells) else None
    return cell.value if isinstance(cell, blocks.Share) else 0.0


def _cell(row: blocks.Row, place: int) -> "Text":
    from rich.text import Text

    style = f"{'bold ' if blocks.is_strong(row, place) else ''}{_STYLES[blocks.mood_of(row, place)]}"
    return Text(blocks.text_of(row, place), style.strip())


def bar(share: float, width: int) -> str:
    """Eighths of a block, so that small differences show."""
    eighths = max(1, round(share * width * 8)) if share > 0 else 0
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]
