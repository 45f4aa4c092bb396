"""A measurement on a terminal and as a page in Markdown."""

from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.cli import bench_compare
from edgeopt.cli.bench_rows import (
    circumstance_lines,
    fallback_lines,
    load_ms,
    mebibytes,
    number,
    p99,
    said,
    settled_lines,
    sides_table,
    verdict_lines,
)
from edgeopt.cli.console import machine_line
from edgeopt.commands.documents.blocks import Block, Drawing, Table, columns, filled, lines, rows, section
from edgeopt.commands.documents.markdown import page
from edgeopt.measure.memory import net_bytes
from edgeopt.units import NO_INTERVAL

if TYPE_CHECKING:
    from edgeopt.commands.bench.bench import Report
    from edgeopt.commands.bench.suite import SuiteReport, SuiteRow
    from edgeopt.measure.report import Comparison, ContestReport


def models_table(report: "SuiteReport") -> Table:
    """A row a model that ran; a column for each other side."""
    against = [f">against {other}" for other in report.against]
    titles = columns("=", ">p50 ms", ">p99 ms", ">runs /s", ">load ms", ">added MiB", *against)
    found = (row for model in report.models if (row := _row(model, len(against))) is not None)
    return filled(Table(titles, rows(*found)))


def _row(model: "SuiteRow", others: int) -> tuple[str, ...] | None:
    from edgeopt.commands.bench.suite import comparison_with

    side = model.report.sides[0] if model.report else None
    if side is None or side.figures is None:
        return None
    return (
        model.name,
        number(side.figures.p50_ms),
        p99(side.figures.p99_ms, side.figures.runs),
        number(side.figures.throughput_per_s),
        number(load_ms(side)),
        mebibytes(net_bytes(side.memory) if side.memory else None),
        *(_verdict(comparison_with(model, place)) for place in range(others)),
    )


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
    table = models_table(report)
    failures = failure_lines(report)
    if failures:
        failures.insert(0, f"{len(failures)} of {len(report.models)} did not run to the end:")
    shown: list[Block] = [table] if table.rows else []
    return [*shown, *lines(mean_lines(report), "strong"), *lines(failures, "warning")]


def blocks(report: "Report | SuiteReport") -> list[Block]:
    """Each kind of report in its own words."""
    from edgeopt.cli import bench_duties
    from edgeopt.commands.bench.suite import SuiteReport
    from edgeopt.measure.duties.records import ColdReport, ConcurrencyReport, PacedReport, SustainedReport
    from edgeopt.measure.report import ContestReport

    match report:
        case ContestReport():
            return contest(report)
        case ColdReport():
            return bench_duties.cold(report)
        case PacedReport():
            return bench_duties.paced(report)
        case SustainedReport():
            return bench_duties.sustained(report)
        case ConcurrencyReport():
            return bench_duties.concurrency(report)
        case SuiteReport():
            return suite(report)
        case _:
            return bench_duties.sweep(report)


def contest(report: "ContestReport") -> list[Block]:
    """The sides, who is faster by how much, how it was measured, what to know."""
    table = sides_table(report)
    shown: list[Block] = [table] if table.rows else []
    shown.append(section("", *lines(verdict_lines(report), "strong"), _chart(report)))
    shown.append(section("", *lines(circumstance_lines(report)), *lines(warning_lines(report), "warning")))
    return shown


def warning_lines(report: "ContestReport") -> list[str]:
    return [f"warning: {each}" for each in (*fallback_lines(report), *settled_lines(report), *report.warnings)]


def _chart(report: "ContestReport") -> Drawing:
    """How the latencies lie; and the intervals around 1x, where there are several to compare by eye."""

    def draw(width: int, plain: bool) -> list[str]:
        from edgeopt.measure.charts import histograms, intervals

        latencies = [
            (side.name, [value for piece in side.slices for value in piece.latencies_ms]) for side in report.sides
        ]
        drawn = histograms([(name, values) for name, values in latencies if values], width, ascii=plain)
        if len(report.comparisons) > 1:
            shared = f"{report.sides[0].name} · "
            ratios = [(f"against {c.second.removeprefix(shared)}", c.speedup) for c in report.comparisons]
            drawn += intervals(ratios, width, ascii=plain)
        return drawn

    return Drawing(draw)


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
    compared = report.judgement is None and report.comparisons
    return [
        *bench_compare.limits_on_page(report.judgement),
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
    measured = [row.report for row in report.models if row.report is not None]
    machine = [machine_line(measured[0].machine, measured[0].versions)] if measured else []
    return [
        *bench_compare.limits_on_page(report.judgement),
        *lines(mean_lines(report), "strong"),
        *_figures(models_table(report)),
        *lines(machine),
        *lines(failure_lines(report), "warning"),
    ]


def _duty(report: "Report") -> str:
    """What a terminal shows, below the verdict."""

    first, *others = [side.name for side in getattr(report, "sides", ())] or [getattr(report, "subject", "")]
    verdicts = (said(each) for each in getattr(report, "comparisons", ()))
    shown: list[Block] = [
        *bench_compare.limits_on_page(getattr(report, "judgement", None)),
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
