"""How `edgeopt bench --suite` shows a folder of models to people."""

from typing import TYPE_CHECKING

from edgeopt.bench.memory import net_bytes
from edgeopt.cli.bench_rows import Rows, filled, load_ms, mebibytes, number, p99
from edgeopt.cli.bench_show import print_line, table

if TYPE_CHECKING:
    from rich.console import Console

    from edgeopt.bench.report import Comparison
    from edgeopt.measuring.suite import SuiteReport, SuiteRow


def suite_rows(report: "SuiteReport") -> Rows:
    """A row a model that ran; a column for each other side."""
    titles = [f"against {other}" for other in report.against]
    columns = ("", "p50 ms", "p99 ms", "runs /s", "load ms", "model MiB", *titles)
    return filled(Rows(columns, [row for m in report.models if (row := _row(m, len(titles))) is not None]))


def _row(model: "SuiteRow", others: int) -> list[str] | None:
    from edgeopt.measuring.suite import comparison_with

    side = model.report.sides[0] if model.report else None
    if side is None or side.figures is None:
        return None
    return [
        model.name,
        number(side.figures.p50_ms),
        p99(side.figures.p99_ms, side.figures.runs),
        number(side.figures.throughput_per_s),
        number(load_ms(side)),
        mebibytes(net_bytes(side.memory) if side.memory else None),
        *(_verdict(comparison_with(model, place)) for place in range(others)),
    ]


def _verdict(comparison: "Comparison | None") -> str:
    """A ratio where there is a difference, else why there is none."""
    if comparison is None or comparison.verdict == "too few rounds to tell":
        return "cannot tell"
    return "no difference" if comparison.verdict == "no difference seen" else f"{comparison.speedup}"


def mean_lines(report: "SuiteReport") -> list[str]:
    lines = []
    for mean in report.means:
        ratio = mean.speedup
        if ratio is None:
            lines.append(f"Geometric mean against {mean.against}: too few rounds with every model to tell.")
            continue
        models = f"{ratio.rounds} model{'s' if ratio.rounds != 1 else ''}"
        line = (
            f"Geometric mean against {mean.against}: {ratio} (a {100 * ratio.confidence:.3g} % interval) "
            f"over {models} ({mean.faster} faster, {mean.slower} slower)"
        )
        left_out = f"; left out, after too few rounds: {', '.join(mean.left_out)}" if mean.left_out else ""
        lines.append(f"{line}{left_out}.")
    return lines


def failure_lines(report: "SuiteReport") -> list[str]:
    return [f"{model.name}: {model.failure} {model.hint}".strip() for model in report.models if model.failure]


def show_suite(report: "SuiteReport", console: "Console") -> None:
    """The models that ran, the means over them, those that did not run."""
    rows = suite_rows(report)
    if rows.rows:
        console.print(table(rows, console.width))
    for line in mean_lines(report):
        print_line(console, line, bold=True)
    failures = failure_lines(report)
    if failures:
        print_line(console, f"{len(failures)} of {len(report.models)} did not run to the end:", style="yellow")
    for line in failures:
        print_line(console, line, style="yellow")
