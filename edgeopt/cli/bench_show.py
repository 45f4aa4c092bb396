"""What `edgeopt bench` shows of a measurement, and of a contest."""

from typing import TYPE_CHECKING

from edgeopt.cli.bench_rows import circumstance_lines, fallback_lines, settled_lines, sides_table, verdict_lines
from edgeopt.commands.documents.blocks import Block, Drawing, lines, section

if TYPE_CHECKING:
    from edgeopt.commands.bench.bench import Report
    from edgeopt.commands.bench.suite import SuiteReport
    from edgeopt.measure.report import ContestReport


def blocks(report: "Report | SuiteReport") -> list[Block]:
    """Each kind of report in its own words."""
    from edgeopt.cli import bench_duties, bench_suite, bench_sweep
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
            return bench_suite.suite(report)
        case _:
            return bench_sweep.sweep(report)


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
