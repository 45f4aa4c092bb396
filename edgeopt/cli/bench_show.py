"""How `edgeopt bench` shows a contest to people."""

from typing import TYPE_CHECKING

from edgeopt.cli.bench_rows import (
    Rows,
    circumstance_lines,
    fallback_lines,
    settled_lines,
    sides_rows,
    verdict_lines,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from edgeopt.bench.report import ContestReport
    from edgeopt.measuring.bench import Report
    from edgeopt.measuring.suite import SuiteReport

# Narrower than this, titles take two lines.
_WIDE = 110
_WIDEST_CHART = 110


def show_report(report: "Report | SuiteReport", console: "Console") -> None:
    """Each kind of report in its own words."""
    from edgeopt.bench.duties.records import ColdReport, ConcurrencyReport, PacedReport, SustainedReport
    from edgeopt.bench.report import ContestReport
    from edgeopt.cli import bench_duties, bench_suite, bench_sweep
    from edgeopt.measuring.suite import SuiteReport

    if isinstance(report, ContestReport):
        show_contest(report, console)
    elif isinstance(report, ColdReport):
        bench_duties.show_cold(report, console)
    elif isinstance(report, PacedReport):
        bench_duties.show_paced(report, console)
    elif isinstance(report, SustainedReport):
        bench_duties.show_sustained(report, console)
    elif isinstance(report, ConcurrencyReport):
        bench_duties.show_concurrency(report, console)
    elif isinstance(report, SuiteReport):
        bench_suite.show_suite(report, console)
    else:
        bench_sweep.show_sweep(report, console)


def show_contest(report: "ContestReport", console: "Console") -> None:
    """The sides, who is faster by how much, how it was measured, what to know."""
    rows = sides_rows(report)
    if rows.rows:
        console.print(table(rows, console.width))
    console.print()
    for line in verdict_lines(report):
        print_line(console, line, bold=True)
    chart = _chart(report, console)
    for line in chart:
        console.print(line, markup=False)
    if chart or report.comparisons:
        console.print()
    for line in circumstance_lines(report):
        print_line(console, line)
    for line in warning_lines(report):
        print_line(console, f"warning: {line}", style="yellow")


def table(rows: Rows, width: int) -> "Table":
    """Rows for a terminal of this width: names fold where they must, figures never."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 2 if width >= _WIDE else 1, 0, 0))
    for position, title in enumerate(rows.columns):
        # Text, because names may hold brackets, which rich would take for its markup.
        shown = Text(title if width >= _WIDE else title.replace(" ", "\n"))
        if position == 0:
            made.add_column(shown, overflow="fold", min_width=12)
        else:
            made.add_column(shown, justify="right", no_wrap=True)
    for row in rows.rows:
        made.add_row(*map(Text, row))
    return made


def warning_lines(report: "ContestReport") -> list[str]:
    return [*fallback_lines(report), *settled_lines(report), *report.warnings]


def print_line(console: "Console", text: str, *, bold: bool = False, style: str = "") -> None:
    """One sentence; it folds at words and its second line is set in."""
    from rich.text import Text

    lines = Text(text, style="bold" if bold else style).wrap(console, max(20, console.width - 2))
    for position, line in enumerate(lines):
        line.rstrip()
        console.print(Text("  ") + line if position else line)


def _chart(report: "ContestReport", console: "Console") -> list[str]:
    """How the latencies lie; and the intervals around 1x, where there are several to compare by eye."""
    from edgeopt.bench.drawing.chart import histograms, intervals

    plain = not console.encoding.lower().startswith("utf")
    width = min(console.width, _WIDEST_CHART)
    latencies = [
        (side.name, [value for piece in side.slices for value in piece.latencies_ms]) for side in report.sides
    ]
    lines = histograms([(name, values) for name, values in latencies if values], width, ascii=plain)
    if len(report.comparisons) > 1:
        shared = f"{report.sides[0].name} · "
        rows = [(f"against {c.second.removeprefix(shared)}", c.speedup) for c in report.comparisons]
        lines += intervals(rows, width, ascii=plain)
    return lines
