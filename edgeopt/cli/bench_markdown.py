"""A measurement as a page in Markdown: a job's summary, a comment, a document."""

from typing import TYPE_CHECKING

from edgeopt.cli import limit_rows
from edgeopt.cli.bench_rows import circumstance_lines, said, sides_table, verdict_lines
from edgeopt.cli.markdown import machine_line
from edgeopt.commands.documents.blocks import Block, Table, columns, lines, rows
from edgeopt.commands.documents.markdown import page
from edgeopt.units import NO_INTERVAL

if TYPE_CHECKING:
    from edgeopt.commands.bench.bench import Report
    from edgeopt.commands.bench.suite import SuiteReport
    from edgeopt.measure.report import Comparison, ContestReport


def written(report: "Report | SuiteReport") -> str:
    """The verdict first, then the figures, then how they were measured and on what."""
    from edgeopt.commands.bench.suite import SuiteReport
    from edgeopt.measure.report import ContestReport

    if isinstance(report, ContestReport):
        first, *others = [side.name for side in report.sides]
        return page(_title(first, others), _contest(report), level=2)
    if isinstance(report, SuiteReport):
        return page(_title(report.folder, report.against), _suite(report), level=2)
    return _duty(report)


def _contest(report: "ContestReport") -> list[Block]:
    from edgeopt.cli.bench_show import warning_lines

    compared = report.judgement is None and report.comparisons
    return [
        *limit_rows.on_page(report.judgement),
        *lines(verdict_lines(report), "strong"),
        *([_comparisons(report.comparisons)] if compared else []),
        *_figures(sides_table(report)),
        *lines(circumstance_lines(report)),
        *lines([machine_line(report.machine, report.versions)]),
        *lines(warning_lines(report), "warning"),
    ]


def _comparisons(comparisons: "tuple[Comparison, ...]") -> Table:
    found = []
    for each in comparisons:
        ratio = each.speedup
        interval = f"{100 * ratio.confidence:.4g} %: {ratio.low:.2f} to {ratio.high:.2f}"
        interval = interval if ratio.usable else NO_INTERVAL
        found.append((each.second, f"{ratio.median:.2f}x", interval, each.verdict))
    return Table(columns(f"{comparisons[0].first} against", ">speed-up", ">interval", "verdict"), rows(*found))


def _suite(report: "SuiteReport") -> list[Block]:
    from edgeopt.cli.bench_suite import failure_lines, mean_lines, models_table

    measured = [row.report for row in report.models if row.report is not None]
    machine = [machine_line(measured[0].machine, measured[0].versions)] if measured else []
    return [
        *limit_rows.on_page(report.judgement),
        *lines(mean_lines(report), "strong"),
        *_figures(models_table(report)),
        *lines(machine),
        *lines(failure_lines(report), "warning"),
    ]


def _duty(report: "Report") -> str:
    """What a terminal shows, below the verdict."""
    from edgeopt.cli.bench_show import blocks

    first, *others = [side.name for side in getattr(report, "sides", ())] or [getattr(report, "subject", "")]
    verdicts = (said(each) for each in getattr(report, "comparisons", ()))
    shown: list[Block] = [
        *limit_rows.on_page(getattr(report, "judgement", None)),
        *lines(verdicts, "strong"),
        *blocks(report),
        *lines([machine_line(report.machine)]),
    ]
    return page(f"{_title(first, others)} ({report.duty})", shown, level=2)


def _title(name: str, others: "list[str] | tuple[str, ...]") -> str:
    against = f" against {', '.join(others)}" if others else ""
    return f"edgeopt bench: {name}{against}"


def _figures(table: Table) -> list[Block]:
    """On a page, the names have a title too."""
    return [Table((*columns("side"), *table.columns[1:]), table.rows)] if table.rows else []
