"""What the models are made of, before and after."""

from edgeopt.commands.documents.blocks import Block, Folded, Mood, Row, Section, Table, Words, columns
from edgeopt.commands.report import words
from edgeopt.commands.report.facts import Facts, OperatorCount, Work

_ALL = 400
"""A model can hold operators of any name; a report need not list them all."""


def section(facts: Facts) -> Section | None:
    blocks: list[Block] = []
    if facts.work_after is not None:
        blocks.append(_work(facts.work_before, facts.work_after))
    reason = facts.unknown.get("operators after") or facts.unknown.get("operators before")
    blocks += _counts(facts.operators)
    if reason:
        blocks.append(Words(reason, "faint"))
    return Section("operators", "Operators, before and after", tuple(blocks)) if blocks else None


def _work(before: Work | None, after: Work) -> Table:
    def row(title: str, first: int | None, second: int | None, as_bytes: bool = False) -> Row:
        shown = [
            words.size(v) if as_bytes else (f"{v:,}" if v is not None else words.UNKNOWN) for v in (first, second)
        ]
        return Row((title, *shown, words.change(first, second)))

    rows = (
        row("nodes", before.nodes if before else None, after.nodes),
        row("parameters", before.parameters if before else None, after.parameters),
        row("multiply-adds in one run", before.multiply_adds if before else None, after.multiply_adds),
        row("bytes that one run moves", before.moved_bytes if before else None, after.moved_bytes, as_bytes=True),
        row("size of the files", before.size_bytes if before else None, after.size_bytes, as_bytes=True),
    )
    if before is None:
        narrow = tuple(Row((each.cells[0], each.cells[2])) for each in rows)
        return Table(columns("the delivered model", ">"), narrow)
    return Table(columns("", ">source", ">result", ">change"), rows)


def _counts(counts: tuple[OperatorCount, ...]) -> list[Block]:
    """Those that changed; the others for who asks."""
    if not counts:
        return []
    if any(each.before is None or each.after is None for each in counts):
        rows = tuple(Row((each.operator, _count(each.before), _count(each.after))) for each in counts[:_ALL])
        return [Table(columns("operator", ">source", ">result"), rows, "How often each operator occurs.")]
    moved = [each for each in counts if each.before != each.after]
    same = [each for each in counts if each.before == each.after]
    total = OperatorCount("all", sum(each.before or 0 for each in counts), sum(each.after or 0 for each in counts))
    titles = columns("operator", ">source", ">result", ">change")
    blocks: list[Block] = []
    if moved:
        rows = tuple(_compared(each) for each in moved[:_ALL])
        caption = "How often each operator occurs that occurs more or less often than before, and all together."
        blocks.append(Table(titles, (*rows, _compared(total, "strong")), caption))
    else:
        blocks.append(Words(f"Every operator occurs as often as in the source: {total.after:,} nodes in all."))
    if same:
        several = words.several(len(same), "operator that occurs", "operators that occur")
        blocks.append(
            Folded(f"{several} as often as before", (Table(titles, tuple(map(_compared, same[:_ALL]))),))
        )
    return blocks


def _compared(each: OperatorCount, mood: Mood = "") -> Row:
    return Row((each.operator, _count(each.before), _count(each.after), _difference(each)), mood)


def _count(value: int | None) -> str:
    return words.UNKNOWN if value is None else f"{value:,}"


def _difference(each: OperatorCount) -> str:
    moved = (each.after or 0) - (each.before or 0)
    return f"{moved:+,}" if moved else "the same"
