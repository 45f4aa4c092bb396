"""How `edgeopt bench --suite` shows a folder of models to people."""

from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.cli.bench_rows import load_ms, mebibytes, number, p99
from edgeopt.commands.documents.blocks import Block, Table, columns, filled, lines, rows
from edgeopt.measure.memory import net_bytes

if TYPE_CHECKING:
    from edgeopt.commands.bench.suite import SuiteReport, SuiteRow
    from edgeopt.measure.report import Comparison


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
