"""How a sweep is shown: a row for each value, and which value is best for how many runs."""

import math
from typing import TYPE_CHECKING

from edgeopt.cli.bench_rows import Rows, filled, mebibytes, number

if TYPE_CHECKING:
    from rich.console import Console

    from edgeopt.bench.stats import Interval
    from edgeopt.measuring.sweep_report import SweepPoint, SweepReport, Value

_BEST = "*"
# Narrower than this, there is no room for the slowest runs.
_WIDE = 100


def show_sweep(report: "SweepReport", console: "Console") -> None:
    from edgeopt.cli.bench_show import print_line, table

    print_line(console, f"{report.name} of {report.subject} on {report.backend}", bold=True)
    ran = [point for point in report.points if point.p50_ms is not None]
    if ran:
        narrow = console.width < _WIDE
        rows = _option_rows(report, ran, narrow) if report.kind == "option" else _axis_rows(report, ran)
        console.print(table(filled(rows), console.width))
    for line in sentences(report, ran):
        print_line(console, line)
    for point in report.points:
        if point.failure:
            name = f"{report.name}={written(point.value)}"
            print_line(console, f"{name} did not finish: {point.failure.rstrip('.')}.", style="yellow")
    for warning in report.warnings:
        print_line(console, f"warning: {warning}", style="yellow")


def sentences(report: "SweepReport", ran: "list[SweepPoint]") -> list[str]:
    """What the table says, in words."""
    lines = _best_lines(report, ran) if report.kind == "option" else _axis_lines(report, ran)
    if any(point.gain is not None and not sure(point.gain) for point in ran):
        lines.append("There were too few rounds for an interval; more time may tell (--time-limit).")
    if report.measured_while:
        lines.append(report.measured_while)
    return lines


def _option_rows(report: "SweepReport", ran: "list[SweepPoint]", narrow: bool) -> Rows:
    from edgeopt.bench.memory import net_bytes

    totals = report.totals
    columns = (
        report.name,
        "create ms",
        "run ms",
        *(() if narrow else ("p99 ms",)),
        f"against {written(report.points[0].value)}",
        "model MiB",
        *(f"{n:,} run{'s' if n > 1 else ''}" for n in totals),
    )
    best = {n: best_value(report, n) for n in totals}
    rows = [
        [
            written(point.value),
            number(point.create_ms),
            number(point.p50_ms),
            *(() if narrow else (number(point.p99_ms),)),
            _gain(point.gain),
            mebibytes(net_bytes(point.memory) if point.memory else None),
            *(
                f"{_BEST if point.value == best[n] and len(ran) > 1 else ''}{duration(point.totals_ms[n])}"
                for n in totals
            ),
        ]
        for point in ran
    ]
    return Rows(columns, rows)


def best_value(report: "SweepReport", runs: int) -> "Value | None":
    """The value that counts as best for so many runs."""
    reached = [stretch.value for stretch in report.best_by_runs if stretch.from_runs <= runs]
    return reached[-1] if reached else None


def _best_lines(report: "SweepReport", ran: "list[SweepPoint]") -> list[str]:
    if len(ran) < 2 or not report.best_by_runs:
        return []
    stretches = report.best_by_runs
    lines = []
    if report.runs is not None:
        value = best_value(report, report.runs)
        point = next(p for p in ran if p.value == value)
        lines.append(
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
    lines.append(
        f"{_BEST} Best, creation and runs together: {', '.join(parts)}. "
        "One that takes longer to create must run 2 % faster to count as better."
    )
    unsure = [written(p.value) for p in ran if p.verdict in {"no difference seen", "too few rounds to tell"}]
    if unsure:
        first = written(report.points[0].value)
        lines.append(f"Not proved to run faster or slower than {first}: {', '.join(unsure)}; more time may tell.")
    return lines


def _axis_rows(report: "SweepReport", ran: "list[SweepPoint]") -> Rows:
    from edgeopt.bench.memory import net_bytes

    item = "sample" if report.kind == "batch" else "step"
    columns = (
        report.name,
        "run ms",
        "p99 ms",
        f"ms /{item}",
        f"{item}s /s",
        f"per\u00a0{item}, against\u00a0{written(report.points[0].value)}",
        "create ms",
        "model MiB",
    )
    rows = [
        [
            written(point.value),
            number(point.p50_ms),
            number(point.p99_ms),
            number(point.item_ms),
            number(point.throughput_per_s),
            _gain(point.gain),
            number(point.create_ms),
            mebibytes(net_bytes(point.memory) if point.memory else None),
        ]
        for point in ran
    ]
    return Rows(columns, rows)


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
    return f"{gain.median:.2f}x [{gain.low:.2f} {gain.high:.2f}]" if sure(gain) else f"{gain.median:.2f}x, unsure"


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
