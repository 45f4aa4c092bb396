"""What `edgeopt ops` prints: the matrix, what does not conform, and what it means for a model."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from edgeopt.ops.matrix import (
    LEGEND,
    MARKS,
    Cell,
    Column,
    Flaw,
    Row,
    columns,
    flaws,
    roofline_note,
    rows,
    summary,
)
from edgeopt.ops.result import Compatibility, CoverageRow, OperatorRow, Report

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_STYLES = {"conforms": "green", "deviates": "yellow", "not supported": "cyan", "failed": "bold red"}
_TITLE_WIDTH = 36
_CELL_WIDTH = 17
_NAMED = 5
_NOTHING_BETWEEN = 1.1


def show(report: Report, console: "Console") -> None:
    """The matrix, or the model's view of it; then every case that does not conform."""
    if report.model is not None:
        _model(report, report.model, console)
    else:
        _matrix(report, console)
    _flaws(report, console)
    console.print()
    for line in summary(report):
        console.print(line, markup=False)


def show_markdown(report: Report, console: "Console") -> None:
    """The matrix as a table of GitHub's Markdown."""
    for line in markdown(report):
        console.print(line, markup=False, soft_wrap=True)


def markdown(report: Report) -> Iterator[str]:
    wanted = columns(report)
    if report.model is not None:
        yield from _model_markdown(report, report.model)
        yield ""
    else:
        yield f"| operator | {' | '.join(f'{c.backend} {c.precision}' for c in wanted)} |"
        yield f"|---|{'---|' * len(wanted)}"
        for row in rows(report, wanted):
            cells = (f"**{cell.text}**" if cell.is_quickest else cell.text for cell in row.cells)
            yield f"| {row.title} | {' | '.join(cells)} |"
        yield ""
        yield f"{LEGEND}. Bold: the quickest in a precision."
        yield ""
    for flaw in _flaws_shown(report):
        yield f"- {flaw.backend}, {flaw.case}, {flaw.status}: {flaw.message}"
    yield ""
    yield from (f"{line}  " for line in summary(report))


def _matrix(report: Report, console: "Console") -> None:
    wanted = columns(report)
    if _TITLE_WIDTH + _CELL_WIDTH * len(wanted) <= console.width:
        groups = [wanted]
    else:
        precisions = dict.fromkeys(column.precision for column in wanted)
        groups = [[column for column in wanted if column.precision == each] for each in precisions]
    for group in groups:
        _table(list(rows(report, group)), group, console)
        console.print()
    console.print(f"{LEGEND}; bold: the quickest in a precision", style="dim", markup=False)
    note = roofline_note(report)
    if note:
        console.print(note, style="dim", markup=False)


def _table(found: Sequence[Row], group: Sequence[Column], console: "Console") -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("operator", box=None, pad_edge=False)
    for column in group:
        table.add_column(f"{column.backend}\n{column.precision}", min_width=12, no_wrap=True)
    family = ""
    for row in found:
        if row.family != family:
            family = row.family
            table.add_row(Text(family, "dim italic"))
        table.add_row(Text(row.title), *(_cell(cell) for cell in row.cells))
    console.print(table)


def _cell(cell: Cell) -> "Text":
    from rich.text import Text

    return Text(cell.text, f"{'bold ' if cell.is_quickest else ''}{_STYLES.get(cell.status or '', '')}".strip())


def _flaws(report: Report, console: "Console") -> None:
    found = _flaws_shown(report)
    if not found:
        return
    count = sum(flaw.count for flaw in found)
    title = f"{count} results do not conform:" if count > 1 else "One result does not conform:"
    console.print(f"\n{title}", style="bold")
    for flaw in found:
        console.print(f"  {MARKS[flaw.status]} ", style=_STYLES[flaw.status], end="")
        line = f"{flaw.backend}: {flaw.case}: {flaw.status}: {flaw.message}"
        console.print(line, markup=False, soft_wrap=not console.is_terminal)


def _flaws_shown(report: Report) -> list[Flaw]:
    """Of a model, those that say something of it: that another mode deviates is no matter there."""
    if report.model is None:
        return flaws(report)
    from edgeopt.ops.compatibility import cases_of_model

    return flaws(msgspec.structs.replace(report, cases=cases_of_model(report, report.model)))


def _model(report: Report, model: Compatibility, console: "Console") -> None:
    from rich.table import Table
    from rich.text import Text

    names = [row.name for row in report.backends if row.version is not None]
    console.print(Text(f"{model.name}: {model.nodes:,} nodes, {len(model.operators)} kinds of operators", "bold"))
    table = Table("operator", "", "nodes", "work", *names, box=None, pad_edge=False)
    for column in table.columns[2:4]:
        column.justify = "right"
    for row in model.operators:
        cells = [Text(_words(row, name), _STYLES.get(row.status[name], "dim")) for name in names]
        title = _title(row)
        work = f"{row.share:.1%}" if row.share >= 0.0005 else ""
        table.add_row(Text(title), row.precision, f"{row.count:,}", work, *cells)
    console.print(table)
    console.print()
    for line in _told(model):
        console.print(line, markup=False)


def _model_markdown(report: Report, model: Compatibility) -> Iterator[str]:
    names = [row.name for row in report.backends if row.version is not None]
    yield f"| operator of {model.name} | precision | nodes | work | {' | '.join(names)} |"
    yield f"|---|---|---:|---:|{'---|' * len(names)}"
    for row in model.operators:
        cells = " | ".join(_words(row, name) for name in names)
        title = _title(row)
        yield f"| {title} | {row.precision} | {row.count:,} | {row.share:.1%} | {cells} |"
    yield ""
    yield from (f"{line}  " for line in _told(model))


def _title(row: OperatorRow) -> str:
    name = f"{row.domain}.{row.operator}" if row.domain else row.operator
    return f"{name} {row.form}".rstrip()


def _told(model: Compatibility) -> Iterator[str]:
    for name, row in model.coverage.items():
        yield f"{name}: {_coverage(row)}"
    quickest = model.quickest
    if quickest is None:
        yield f"Which backend is quickest: not to be told, because {model.quickest_reason}."
        return
    ordered = sorted(quickest.relative_time.items(), key=lambda item: item[1])
    others = ", ".join(f"{name} {_longer(relative)}" for name, relative in ordered[1:])
    yield (
        f"Quickest at what dominates ({', '.join(quickest.operators)}: {quickest.share:.0%} of the operations): "
        f"{ordered[0][0]}; {others}, over {quickest.cases} cases."
    )
    yield "Runtimes fuse operators, so a whole model may differ: edgeopt bench measures it."


def _longer(relative: float) -> str:
    if relative < _NOTHING_BETWEEN:
        return "is about as quick"
    return f"takes {relative:.2f} times as long"


def _coverage(row: CoverageRow) -> str:
    if row.supported is None:
        return f"cannot say what it runs of the model: {row.reason}"
    if row.supported == row.total:
        return f"says that it runs all {row.total:,} nodes, as it counts them."
    named = ", ".join(row.unsupported[:_NAMED])
    more = " and others" if len(row.unsupported) > _NAMED else ""
    return f"says that it runs {row.supported:,} of {row.total:,} nodes, as it counts them; not: {named}{more}."


def _words(row: OperatorRow, name: str) -> str:
    status = row.status[name]
    mark = {str(known): mark for known, mark in MARKS.items()}.get(status, "·")
    flawed = row.flawed.get(name, 0)
    return f"{mark} {status}: {flawed} of {row.cases}" if flawed else f"{mark} {status}"
