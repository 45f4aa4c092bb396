"""How a sweep is shown: a row for each value, and which value is best for how many runs."""

import math
from typing import TYPE_CHECKING

from edgeopt.cli.bench_rows import mebibytes, number
from edgeopt.commands.documents.blocks import Block, Table, Words, columns, filled, lines, rows

if TYPE_CHECKING:
    from edgeopt.commands.bench.sweep import SweepPoint, SweepReport, Value
    from edgeopt.measure.stats import Interval

_BEST = "*"


def sweep(report: "SweepReport") -> list[Block]:
    ran = [point for point in report.points if point.p50_ms is not None]
    shown: list[Block] = [Words(f"{report.name} of {report.subject} on {report.backend}", "strong")]
    if ran:
        shown.append(filled(_option_table(report, ran) if report.kind == "option" else _axis_table(report, ran)))
    failures = (
        f"{report.name}={written(point.value)} did not finish: {point.failure.rstrip('.')}."
        for point in report.points
        if point.failure
    )
    warnings = (f"warning: {warning}" for warning in report.warnings)
    return [*shown, *lines(sentences(report, ran)), *lines(failures, "warning"), *lines(warnings, "warning")]


def sentences(report: "SweepReport", ran: "list[SweepPoint]") -> list[str]:
    """What the table says, in words."""
    said = _best_lines(report, ran) if report.kind == "option" else _axis_lines(report, ran)
    if any(point.gain is not None and not sure(point.gain) for point in ran):
        said.append("There were too few rounds for an interval; more time may tell (--time-limit).")
    if report.measured_while:
        said.append(report.measured_while)
    return said


def _option_table(report: "SweepReport", ran: "list[SweepPoint]") -> Table:
    from edgeopt.measure.memory import net_bytes

    titles = (
        f"={report.name}",
        *(">create ms", ">run ms", ">p99 ms", f">against {written(report.points[0].value)}", ">added MiB"),
        *(f">{n:,} run{'s' if n > 1 else ''}" for n in report.totals),
    )
    best = {n: best_value(report, n) for n in report.totals}
    found = (
        (
            written(point.value),
            number(point.create_ms),
            number(point.p50_ms),
            number(point.p99_ms),
            _gain(point.gain),
            mebibytes(net_bytes(point.memory) if point.memory else None),
            *(
                f"{_BEST if point.value == best[n] and len(ran) > 1 else ''}{duration(point.totals_ms[n])}"
                for n in report.totals
            ),
        )
        for point in ran
    )
    return Table(columns(*titles), rows(*found))


def best_value(report: "SweepReport", runs: int) -> "Value | None":
    """The best value for this number of runs."""
    reached = [stretch.value for stretch in report.best_by_runs if stretch.from_runs <= runs]
    return reached[-1] if reached else None


def _best_lines(report: "SweepReport", ran: "list[SweepPoint]") -> list[str]:
    from edgeopt.measure.stats import UNDECIDED

    if len(ran) < 2 or not report.best_by_runs:
        return []
    stretches = report.best_by_runs
    said = []
    if report.runs is not None:
        value = best_value(report, report.runs)
        point = next(p for p in ran if p.value == value)
        said.append(
            f"For {report.runs:,} runs: {report.name}={written(point.value)}, "
            f"{duration(point.totals_ms[report.runs])} with the creation of {duration(point.create_ms or 0)}."
        )
    parts = []
    for position, stretch in enumerate(stretches):
        begin = stretch.from_runs
        last = position + 1 == len(stretches)
        end = None if last else stretches[position + 1].from_runs - 1
        if last:
            span = "however many runs there are" if begin == 1 else f"from {begin:,} runs on"
        elif begin == end:
            span = f"for {begin:,} run{'s' if begin > 1 else ''}"
        else:
            span = f"up to {end:,} runs" if begin == 1 else f"from {begin:,} to {end:,} runs"
        parts.append(f"{written(stretch.value)} {span}")
    said.append(
        f"{_BEST} Best, creation and runs together: {', '.join(parts)}. "
        "One that takes longer to create must run 2 % faster to count as better."
    )
    unsure = [written(p.value) for p in ran if p.verdict in UNDECIDED]
    if unsure:
        first = written(report.points[0].value)
        said.append(f"Not proved to run faster or slower than {first}: {', '.join(unsure)}; more time may tell.")
    return said


def _axis_table(report: "SweepReport", ran: "list[SweepPoint]") -> Table:
    from edgeopt.measure.memory import net_bytes

    item = "sample" if report.kind == "batch" else "step"
    gain = f">per {item}, against {written(report.points[0].value)}"
    titles = (
        f">{report.name}",
        ">run ms",
        ">p99 ms",
        f">ms /{item}",
        f">{item}s /s",
        gain,
        ">create ms",
        ">added MiB",
    )
    found = (
        (
            written(point.value),
            number(point.p50_ms),
            number(point.p99_ms),
            number(point.item_ms),
            number(point.throughput_per_s),
            _gain(point.gain),
            number(point.create_ms),
            mebibytes(net_bytes(point.memory) if point.memory else None),
        )
        for point in ran
    )
    return Table(columns(*titles), rows(*found))


def _axis_lines(report: "SweepReport", ran: "list[SweepPoint]") -> list[str]:
    if len(ran) < 2:
        return []
    first, last = ran[0], ran[-1]
    if report.kind == "axis":
        if first.p50_ms is None or last.p50_ms is None:
            return []
        sizes = float(last.value) / float(first.value)
        slower = last.p50_ms / first.p50_ms
        span = f"From {written(first.value)} to {written(last.value)} ({sizes:.3g}x)"
        return [f"{span} a run takes {slower:.3g}x as long."]
    better = [p for p in ran[1:] if p.gain is not None and p.gain.low > 1 and p.gain.median > 1]
    if not better:
        return [f"No batch is seen to do more samples a second than {written(first.value)}."]
    best = max(better, key=lambda p: p.gain.median if p.gain else 0.0)
    most = f"{report.name}={written(best.value)}, {number(best.throughput_per_s)} ({_gain(best.gain)})"
    later = f"{number(best.p50_ms)} ms instead of {number(first.p50_ms)} ms"
    return [f"Most samples a second: {most}; each is answered after {later}."]


def _gain(gain: "Interval | None") -> str:
    if gain is None:
        return ""
    return str(gain) if sure(gain) else f"{gain.median:.2f}x, unsure"


def sure(gain: "Interval") -> bool:
    """Whether there were rounds enough for an interval that says anything."""
    return gain.low > 0 and gain.high < math.inf


def written(value: "Value") -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def duration(milliseconds: float) -> str:
    """In the unit that reads best."""
    if milliseconds < 1e3:
        return f"{number(milliseconds)} ms"
    seconds = milliseconds / 1e3
    return f"{number(seconds)} s" if seconds < 120 else f"{number(seconds / 60)} min"
