"""A measurement as a page in Markdown: a job's summary, a comment, a document."""

from typing import TYPE_CHECKING

from edgeopt.cli import limit_rows
from edgeopt.cli.bench_rows import Rows, circumstance_lines, said, sides_rows, verdict_lines
from edgeopt.cli.markdown import machine_line, plain, print_lines, table

if TYPE_CHECKING:
    from rich.console import Console

    from edgeopt.bench.limits import Judgement
    from edgeopt.bench.report import Comparison, ContestReport
    from edgeopt.measuring.bench import Report
    from edgeopt.measuring.suite import SuiteReport


def show_page(report: "Report | SuiteReport", console: "Console") -> None:
    """The verdict first, then the figures, then how they were measured and on what."""
    from edgeopt.bench.report import ContestReport
    from edgeopt.measuring.suite import SuiteReport

    if isinstance(report, ContestReport):
        print_lines(_contest(report), console)
    elif isinstance(report, SuiteReport):
        print_lines(_suite(report), console)
    else:
        _show_duty(report, console)


def _contest(report: "ContestReport") -> list[str]:
    from edgeopt.cli.bench_show import warning_lines

    names = [side.name for side in report.sides]
    lines = [_title(names[0], names[1:]), "", *limit_lines(report.judgement)]
    lines += [f"**{plain(line)}**  " for line in verdict_lines(report)] + [""]
    if report.judgement is None and report.comparisons:
        lines += [_comparisons(report.comparisons), ""]
    lines += [*_figures(sides_rows(report))]
    lines += [f"{plain(line)}  " for line in circumstance_lines(report)]
    lines.append(machine_line(report.machine, report.versions))
    return [*lines, *_warnings(warning_lines(report))]


def _comparisons(comparisons: "tuple[Comparison, ...]") -> str:
    rows = []
    for each in comparisons:
        ratio = each.speedup
        interval = f"{100 * ratio.confidence:.4g} %: {ratio.low:.2f} to {ratio.high:.2f}"
        rows.append([each.second, f"{ratio.median:.2f}x", interval, each.verdict])
    return table((f"{comparisons[0].first} against", "speed-up", "interval", "verdict"), rows, right={1, 2})


def _suite(report: "SuiteReport") -> list[str]:
    from edgeopt.cli.bench_suite import failure_lines, mean_lines, suite_rows

    measured = [row.report for row in report.models if row.report is not None]
    lines = [_title(report.folder, report.against), "", *limit_lines(report.judgement)]
    lines += [f"**{plain(line)}**  " for line in mean_lines(report)] + [""]
    lines += _figures(suite_rows(report))
    lines += [machine_line(measured[0].machine, measured[0].versions)] if measured else []
    return [*lines, *_warnings(failure_lines(report), "")]


def _show_duty(report: "Report", console: "Console") -> None:
    """What a terminal shows, as it stands, below the verdict."""
    from edgeopt.cli.bench_show import show_report

    names = [side.name for side in getattr(report, "sides", ())] or [getattr(report, "subject", "")]
    judged: Judgement | None = getattr(report, "judgement", None)
    comparisons: tuple[Comparison, ...] = getattr(report, "comparisons", ())
    verdicts = [f"**{plain(said(each))}**  " for each in comparisons]
    title = f"{_title(names[0], names[1:])} ({report.duty})"
    print_lines([title, "", *limit_lines(judged), *verdicts, "", "```"], console)
    show_report(report, console)
    print_lines(["```", "", machine_line(report.machine)], console)


def _title(name: str, others: "list[str] | tuple[str, ...]") -> str:
    against = f" against {', '.join(others)}" if others else ""
    return f"## edgeopt bench: {plain(f'{name}{against}')}"


def limit_lines(judged: "Judgement | None") -> list[str]:
    """The verdict on all limits, and the table behind it."""
    if judged is None:
        return []
    return [f"**{plain(limit_rows.headline(judged))}**", "", *limit_rows.as_markdown(judged)]


def _figures(rows: Rows) -> list[str]:
    """Names to the left, figures to the right."""
    if not rows.rows:
        return []
    titles = ["side", *rows.columns[1:]]
    return [table(titles, rows.rows, right=range(1, len(titles))), ""]


def _warnings(lines: list[str], mark: str = "warning: ") -> list[str]:
    """As a quotation below an empty line, or it would go on in the paragraph before."""
    return ["", *(f"> {mark}{plain(line)}  " for line in lines)] if lines else []
