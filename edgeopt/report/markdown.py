"""A report as Markdown, for where HTML cannot go: charts become the sentence that says what is in them."""

from collections.abc import Iterable, Iterator

from edgeopt.report import words
from edgeopt.report.blocks import Block, Chart, Commands, Figures, Folded, Row, Section, Table, Words
from edgeopt.report.facts import Facts

_MARKS = "\\`*_[]<>|#~&"


def document(facts: Facts, sections: tuple[Section, ...]) -> str:
    """All that the page says, in the same order."""
    verdict, *rest = sections
    parts = [f"# {plain(facts.deployment.name)}: {plain(verdict.title)}", *_blocks(verdict.blocks)]
    for section in rest:
        parts += [f"## {plain(section.title)}", *_blocks(section.blocks)]
    parts.append(f"Made by edgeopt {plain(facts.reported_by)} on {plain(words.moment(facts.reported_at))}.")
    return "\n\n".join(part for part in parts if part) + "\n"


def plain(text: str) -> str:
    """Nothing in it becomes mark-up, and a table keeps its columns."""
    shown = "".join(each if each.isprintable() else " " for each in text)
    return "".join(f"\\{each}" if each in _MARKS else each for each in shown)


def _blocks(blocks: tuple[Block, ...]) -> Iterator[str]:
    for block in blocks:
        match block:
            case Words():
                yield f"> {plain(block.text)}" if block.kind == "warning" else plain(block.text)
            case Table():
                yield _table(block)
                yield plain(block.caption)
            case Figures():
                yield "\n".join(
                    f"- **{plain(each.label)}: {plain(each.value)}** ({plain(each.note)})"
                    for each in block.figures
                )
            case Chart():
                yield f"### {plain(block.title)}"
                yield plain(block.says)
            case Commands():
                for why, line in block.lines:
                    yield plain(why)
                    yield _code(line)
            case Folded():
                yield f"### {plain(block.summary)}"
                yield from _blocks(block.blocks)


def _table(table: Table) -> str:
    head = _line(column.title for column in table.columns)
    rule = "|" + "|".join("---:" if column.right else "---" for column in table.columns) + "|"
    return "\n".join([head, rule, *(_row(row) for row in table.rows)])


def _row(row: Row) -> str:
    if row.mood == "strong":
        return "| " + " | ".join(f"**{plain(cell)}**" if cell else "" for cell in row.cells) + " |"
    return _line(row.cells)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(plain(cell) for cell in cells) + " |"


def _code(line: str) -> str:
    """In a fence that nothing in the line can close."""
    fence = "```"
    while fence in line:
        fence += "`"
    shown = "".join(each if each.isprintable() else " " for each in line)
    return f"{fence}\n{shown}\n{fence}"
