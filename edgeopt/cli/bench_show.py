"""A measurement on a terminal and as a page in Markdown."""

from typing import TYPE_CHECKING

import msgspec

from edgeopt import units
from edgeopt.cli import bench_compare
from edgeopt.cli.bench_rows import (
    circumstance_lines,
    fallback_lines,
    said,
    settled_lines,
    sides_table,
    table,
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
    from collections.abc import Callable

    from edgeopt.commands.bench.bench import Report
    from edgeopt.commands.bench.suite import SuiteReport
    from edgeopt.measure.report import Comparison, ContestReport, SideReport
    from edgeopt.measure.stats import Interval


def models_table(report: "SuiteReport") -> list[Block]:
    """A row a model that ran; a column for each other side."""
    from edgeopt.commands.bench.suite import comparison_with

    rows = {row.name: row for row in report.models if row.report and row.report.sides[0].figures}
    sides = [msgspec.structs.replace(row.report.sides[0], name=name) for name, row in rows.items() if row.report]

    def against(place: int) -> "Callable[[SideReport], str]":
        return lambda side: _verdict(comparison_with(rows[side.name], place))

    others = ((f">against {other}", against(place)) for place, other in enumerate(report.against))
    return table(sides, "name", "p50", "p99", "runs", "load", "added", *others)


def _verdict(comparison: "Comparison | None") -> str:
    """A ratio where there is a difference, else why there is none."""
    if comparison is None or comparison.verdict == "too few rounds to tell":
        return "cannot tell"
    if comparison.verdict == "too noisy to tell":
        return "too noisy"
    return "no difference" if comparison.verdict == "no difference seen" else f"{comparison.speedup}"


def mean_lines(report: "SuiteReport") -> list[str]:
    said = []
    for mean in report.means:
        ratio = mean.speedup
        if ratio is None:
            said.append(f"Geometric mean against {mean.against}: too few rounds with every model to tell.")
            continue
        models = units.count(ratio.rounds, "model")
        line = (
            f"Geometric mean against {mean.against}: {ratio} (a {100 * ratio.confidence:.3g} % interval) "
            f"over {models} ({mean.faster} faster, {mean.slower} slower)"
        )
        left_out = f"; left out, after too few rounds: {', '.join(mean.left_out)}" if mean.left_out else ""
        said.append(f"{line}{left_out}.")
    return said


def failure_lines(report: "SuiteReport") -> list[str]:
    return [f"{model.name}: {model.failure} {model.hint}".strip() for model in report.models if model.failure]


def suite(report: "SuiteReport") -> list[Block]:
    """The models that ran, the means over them, those that did not run."""
    failures = failure_lines(report)
    if failures:
        failures.insert(0, f"{len(failures)} of {len(report.models)} did not run to the end:")
    return [*models_table(report), *lines(mean_lines(report), "strong"), *lines(failures, "warning")]


def shown(report: "Report | SuiteReport") -> list[Block]:
    """Returns the blocks for a terminal, with the limits last."""
    return [*blocks(report), *bench_compare.limit_blocks(getattr(report, "judgement", None))]


def blocks(report: "Report | SuiteReport") -> list[Block]:
    """Each kind of report in its own words."""
    from edgeopt.cli import bench_workloads as duties
    from edgeopt.commands.bench.suite import SuiteReport
    from edgeopt.measure.report import ContestReport
    from edgeopt.measure.workloads.records import ColdReport, ConcurrencyReport, PacedReport, SustainedReport

    match report:
        case ContestReport():
            return contest(report)
        case ColdReport():
            return duties.cold(report)
        case PacedReport():
            return duties.paced(report)
        case SustainedReport():
            return duties.sustained(report)
        case ConcurrencyReport():
            return duties.concurrency(report)
        case SuiteReport():
            return suite(report)
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


def written(report: "Report | SuiteReport") -> str:
    """Returns the report as a page: the verdict, the figures, how they were measured and on which device."""
    from edgeopt.commands.bench.suite import SuiteReport
    from edgeopt.measure.report import ContestReport

    names = [side.name for side in getattr(report, "sides", ())] or [getattr(report, "subject", "")]
    duty = ""
    if isinstance(report, ContestReport):
        told = _contest(report)
    elif isinstance(report, SuiteReport):
        names, told = [report.folder, *report.against], _suite(report)
    else:
        verdicts = (said(each) for each in getattr(report, "comparisons", ()))
        told = [*lines(verdicts, "strong"), *blocks(report), *lines([machine_line(report.machine)])]
        duty = f" ({report.duty})"
    against = f" against {', '.join(names[1:])}" if names[1:] else ""
    limits = bench_compare.limits_on_page(getattr(report, "judgement", None))
    return page(f"edgeopt bench: {names[0]}{against}{duty}", [*limits, *told], level=2)


def _contest(report: "ContestReport") -> list[Block]:
    compared = report.judgement is None and report.comparisons
    return [
        *lines(verdict_lines(report), "strong"),
        *([_comparisons(report.comparisons)] if compared else []),
        *_figures(sides_table(report)),
        *lines([*circumstance_lines(report), machine_line(report.machine, report.versions)]),
        *_warnings(report),
    ]


def _comparisons(comparisons: "tuple[Comparison, ...]") -> Table:
    def interval(ratio: "Interval | None") -> str:
        if ratio is None or not ratio.usable:
            return NO_INTERVAL
        return f"{100 * ratio.confidence:.4g} %: {ratio.low:.2f} to {ratio.high:.2f}"

    return table_of(
        comparisons,
        (f"{comparisons[0].first} against", lambda each: each.second),
        (">speed-up", lambda each: ratio_of(each.speedup)),
        (">interval", lambda each: interval(each.speedup)),
        ("verdict", lambda each: each.verdict),
    )


def _suite(report: "SuiteReport") -> list[Block]:
    measured = [row.report for row in report.models if row.report is not None]
    machine = [machine_line(measured[0].machine, measured[0].versions)] if measured else []
    return [
        *lines(mean_lines(report), "strong"),
        *_figures(models_table(report)),
        *lines(machine),
        *lines(failure_lines(report), "warning"),
    ]


def _figures(tables: list[Block]) -> list[Block]:
    """On a page, the names have a title too."""
    return [Table((*columns("side"), *each.columns[1:]), each.rows) for each in tables if isinstance(each, Table)]
