"""Blocks as Markdown, as GitHub and its kin show them; charts become the sentence that says what is in them."""

from collections.abc import Iterable, Iterator

from edgeopt.errors import legible
from edgeopt.views import blocks

_MARKS = "\\`*_[]<>|#~&"
_DRAWN = 100


def page(title: str, shown: Iterable[blocks.Block], level: int = 1) -> str:
    """A title of this level, where there is one, and below it what all the blocks say, in their order."""
    parts = [f"{'#' * level} {plain(title)}" if title else "", *_blocks(blocks.legible_blocks(shown), level + 1)]
    return "\n\n".join(part for part in parts if part) + "\n"


def plain(text: str) -> str:
    """Returns text escaped so that nothing in it becomes mark-up, and a table keeps its columns."""
    return "".join(f"\\{each}" if each in _MARKS else each for each in legible(text))


def _blocks(shown: Iterable[blocks.Block], level: int) -> Iterator[str]:
    for block in shown:
        match block:
            case blocks.WordsBlock():
                yield _words(block)
            case blocks.Listed():
                marks = (f"{n}." if block.numbered else "-" for n in range(1, len(block.items) + 1))
                yield "\n".join(f"{mark} {plain(item)}" for mark, item in zip(marks, block.items, strict=True))
            case blocks.Table():
                yield _table(block)
                yield plain(block.caption)
            case blocks.Figures():
                yield "\n".join(
                    f"- **{plain(each.label)}: {plain(each.value)}** ({plain(each.note)})"
                    for each in block.figures
                )
            case blocks.Chart():
                yield f"### {plain(block.title)}"
                yield plain(block.says)
            case blocks.Drawing():
                yield _code("\n".join(block.draw(_DRAWN, False)))
            case blocks.Commands():
                yield from _commands(block)
            case blocks.Folded():
                yield f"### {plain(block.summary)}"
                yield from _blocks(block.blocks, level)
            case blocks.Section():
                yield f"{'#' * level} {plain(block.title)}" if block.title else ""
                yield from _blocks(block.blocks, level + 1 if block.title else level)


def _words(words: blocks.WordsBlock) -> str:
    content = plain(words.text)
    return f"> {content}" if words.mood == "warning" else f"**{content}**" if words.mood == "strong" else content


def _commands(commands: blocks.Commands) -> Iterator[str]:
    """Lines without a word of their own go on in the fence before."""
    fenced: list[str] = []
    for why, line in commands.lines:
        if why and fenced:
            yield _code("\n".join(fenced))
            fenced = []
        yield plain(why)
        fenced.append(line)
    if fenced:
        yield _code("\n".join(fenced))


def _table(table: blocks.Table) -> str:
    places = range(len(table.columns))
    head = _line(plain(column.title) for column in table.columns)
    rule = "|" + "|".join("---:" if column.right else "---" for column in table.columns) + "|"
    return "\n".join([head, rule, *(_line(_cell(row, place) for place in places) for row in table.rows)])


def _cell(row: blocks.Row, place: int) -> str:
    content = plain(blocks.text_of(row, place))
    return f"**{content}**" if content and blocks.is_strong(row, place) else content


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _code(text: str) -> str:
    """Returns text in a code fence that nothing in the text can close."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
