"""A measurement on a terminal and as a page in Markdown."""

from typing import TYPE_CHECKING

from edgeopt.cli.bench_rows import (
    circumstance_lines,
    comparison_text,
    fallback_lines,
    settled_lines,
    sides_table,
    verdict_lines,
)
from edgeopt.cli.console import machine_line
from edgeopt.units import NO_INTERVAL
from edgeopt.views.blocks import (
    Block,
    Drawing,
    Table,
    WordsBlock,
    columns,
    lines,
    section,
    table_of,
    warnings,
)
from edgeopt.views.markdown import page
from edgeopt.views.words import ratio_of

if TYPE_CHECKING:
    from edgeopt.commands.bench.bench import Report
    from edgeopt.measure.report import Comparison, ContestReport, Judgement
    from edgeopt.measure.stats import Interval

# With more limits than people read sentences, only those that do not hold get one.
_MAX_SENTENCES = 8


def shown(report: "Report") -> list[Block]:
    """Returns the blocks for a terminal, with the limits last."""
    return [*blocks(report), *limit_blocks(getattr(report, "judgement", None))]


def blocks(report: "Report") -> list[Block]:
    """Each kind of report in its own words."""
    from edgeopt.cli import bench_workloads as duties
    from edgeopt.measure.report import ContestReport
    from edgeopt.measure.workloads.records import (
        ColdReport,
        ConcurrencyReport,
        GenerateReport,
        PacedReport,
        SustainedReport,
    )

    match report:
        case ContestReport():
            return contest(report)
        case ColdReport():
            return duties.cold(report)
        case PacedReport():
            return duties.paced(report)
        case GenerateReport():
            return duties.generate(report)
        case SustainedReport():
            return duties.sustained(report)
        case ConcurrencyReport():
            return duties.concurrency(report)
        case _:
            return duties.sweep(report)


def contest(report: "ContestReport") -> list[Block]:
    """The sides, who is faster by how much, how it was measured, what to know."""
    return [
        *sides_table(report),
        section("", *lines(verdict_lines(report), "strong"), _chart(report)),
        section("", *lines(circumstance_lines(report)), *_warnings(report)),
    ]


def _warnings(report: "ContestReport") -> tuple[WordsBlock, ...]:
    return warnings((*fallback_lines(report), *settled_lines(report), *report.warnings))


def _chart(report: "ContestReport") -> Drawing:
    """Returns histograms of the latencies, and of several comparisons the intervals around 1x."""

    def draw(width: int, plain: bool) -> list[str]:
        from edgeopt.measure.charts import histograms, intervals

        latencies = [
            (side.name, [value for piece in side.slices for value in piece.latencies_ms]) for side in report.sides
        ]
        drawn = histograms([(name, values) for name, values in latencies if values], width, ascii=plain)
        if len(report.comparisons) > 1:
            shared = f"{report.sides[0].name} · "
            ratios = [
                (f"against {c.second.removeprefix(shared)}", c.speedup)
                for c in report.comparisons
                if c.speedup is not None and c.speedup.usable
            ]
            drawn += intervals(ratios, width, ascii=plain)
        return drawn

    return Drawing(draw)


def written(report: "Report") -> str:
    """Returns the report as a page: the verdict, the figures, then how and on what they were measured."""
    from edgeopt.measure.report import ContestReport

    names = [side.name for side in getattr(report, "sides", ())] or [getattr(report, "subject", "")]
    duty = ""
    if isinstance(report, ContestReport):
        body = _contest(report)
    else:
        verdicts = (comparison_text(each) for each in getattr(report, "comparisons", ()))
        body = [*lines(verdicts, "strong"), *blocks(report), *lines([machine_line(report.machine)])]
        duty = f" ({report.duty})"
    against = f" against {', '.join(names[1:])}" if names[1:] else ""
    limits = limits_on_page(getattr(report, "judgement", None))
    return page(f"edgeopt bench: {names[0]}{against}{duty}", [*limits, *body], level=2)


def _contest(report: "ContestReport") -> list[Block]:
    compared = report.judgement is None and report.comparisons
    return [
        *lines(verdict_lines(report), "strong"),
        *([_comparisons(report.comparisons)] if compared else []),
        *_figures(sides_table(report)),
        *lines([*circumstance_lines(report), machine_line(report.machine, report.versions)]),
        *_warnings(report),
    ]


def limit_blocks(judged: "Judgement | None") -> list[Block]:
    """A sentence for each limit; where there are many, for those that do not simply hold."""
    if judged is None:
        return []
    shown = [each for each in judged.checks if len(judged.checks) <= _MAX_SENTENCES or each.state != "held"]
    left = len(judged.checks) - len(shown)
    rest = [f"{left} of {len(judged.checks)} limits hold."] if left else []
    return [section("", *lines((each.sentence for each in shown), "strong"), *lines(rest))]


def limits_on_page(judged: "Judgement | None") -> list[Block]:
    """The verdict on all of them, a table of the checks, and why those that were not judged were not."""
    if judged is None:
        return []
    why = (each.sentence for each in judged.checks if each.state in {"undecided", "not judged"})
    checks = table_of(
        judged.checks,
        ("limit", lambda each: judged.limits.written(each.limit)),
        ("against", lambda each: f"{each.second}, by {each.measured}" if each.measured else each.second),
        (">speed-up", lambda each: f"{each.speedup.median:.3f}x" if each.speedup and each.speedup.usable else ""),
        (">interval", lambda each: _interval(each.speedup, 3)),
        (">least allowed", lambda each: f"{each.minimum:.3f}x"),
        ("verdict", lambda each: "not proved" if each.state == "undecided" and not each.passed else each.state),
    )
    return [WordsBlock(_headline(judged), "strong"), checks, *lines(why)]


def _headline(judged: "Judgement") -> str:
    """The verdict on all limits in one sentence."""
    from edgeopt.commands.bench.limits import broken

    failed = broken(judged)
    if failed is not None:
        return failed.message
    undecided = sum(each.state == "undecided" for each in judged.checks)
    if undecided and len(judged.checks) == 1:
        return "The limit is undecided: neither broken nor met for certain."
    if undecided:
        return f"No limit is broken, but {undecided} of {len(judged.checks)} could not be decided."
    return "The limit holds." if len(judged.checks) == 1 else "All limits hold."


def _interval(ratio: "Interval | None", digits: int) -> str:
    if ratio is None or not ratio.usable:
        return NO_INTERVAL
    return f"{100 * ratio.confidence:.4g} %: {ratio.low:.{digits}f} to {ratio.high:.{digits}f}"


def _comparisons(comparisons: "tuple[Comparison, ...]") -> Table:
    return table_of(
        comparisons,
        (f"{comparisons[0].first} against", lambda each: each.second),
        (">speed-up", lambda each: ratio_of(each.speedup)),
        (">interval", lambda each: _interval(each.speedup, 2)),
        ("verdict", lambda each: each.verdict),
    )


def _figures(tables: list[Block]) -> list[Block]:
    """On a page, the names have a title too."""
    return [Table((*columns("side"), *each.columns[1:]), each.rows) for each in tables if isinstance(each, Table)]
