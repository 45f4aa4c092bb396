"""Duty cycles and sweeps of `edgeopt bench`, as people see them."""

import math
from typing import TYPE_CHECKING

from edgeopt.cli.bench_rows import mebibytes, number, p99, said
from edgeopt.commands.documents.blocks import Block, Drawing, Table, Words, columns, filled, lines, rows, section

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from edgeopt.commands.bench.sweep import SweepPoint, SweepReport, Value
    from edgeopt.measure.duties.records import (
        ColdReport,
        ConcurrencyReport,
        ConcurrencySide,
        PacedReport,
        PacedSide,
        Spread,
        SustainedReport,
        SustainedSide,
        Window,
    )
    from edgeopt.measure.report import Comparison
    from edgeopt.measure.stats import Interval

_MOST_ROWS = 12
_WIDEST = 100
_BEST = "*"


def cold(report: "ColdReport") -> list[Block]:
    """Where the time to the first answer goes, and who gives it first."""
    titles = (">process ms", ">import ms", ">load ms", ">first run ms", ">first answer ms", ">middle half ms")
    found = (
        (
            side.name,
            *(_median(s) for s in (side.start_ms, side.import_ms, side.load_ms, side.first_run_ms, side.total_ms)),
            _range(side.total_ms),
        )
        for side in report.sides
        if side.starts
    )
    starts = max((len(side.starts) for side in report.sides), default=0)
    return [
        *_table(("=", *titles), found),
        *_verdicts("To the first answer", report.comparisons),
        *_verdicts("Loading alone", report.load_comparisons),
        *_failed((s.name, s.failure) for s in report.sides),
        Words(f"{starts} starts of each, interleaved; medians. {report.cache}"),
        *lines([report.measured_while]),
        Words("'process' is the start of Python and of edgeopt's trial; your own program has another."),
    ]


def paced(report: "PacedReport") -> list[Block]:
    """Latencies at the rate, what they cost, and whether it was kept."""
    rate = f"{report.rate_per_s:g}"
    titles = (
        *("=", ">p50 ms", ">p90 ms", ">p99 ms", f">of {rate} /s", ">missed %", ">CPU ms /run", ">of a core"),
        ">mJ /run",
    )
    kept = f"{rate} runs a second by the clock, {report.rounds} rounds with {report.slice_s:.2g} s for each side."
    return [
        *_table(titles, (_paced_row(side) for side in report.sides if side.runs)),
        *_verdicts("At the median", report.comparisons),
        *_verdicts("At the 99th percentile", report.tail_comparisons),
        *_failed((s.name, s.failure) for s in report.sides),
        Words(kept),
        *_energy_reasons(report.sides),
        *lines([report.measured_while]),
        *_warnings(report.warnings),
    ]


def _paced_row(side: "PacedSide") -> tuple[str, ...]:
    joules = side.energy.joules_per_run if side.energy else None
    return (
        side.name,
        number(side.p50_ms),
        number(side.p90_ms),
        p99(side.p99_ms, side.runs),
        number(side.achieved_per_s),
        f"{100 * side.missed_runs / (side.runs + side.missed_runs):.1f}",
        number(side.cpu_ms_per_run),
        "" if side.cpu_percent is None else f"{side.cpu_percent:.0f} %",
        number(None if joules is None else joules * 1e3),
    )


def sustained(report: "SustainedReport") -> list[Block]:
    """Each side over time, and whether it kept its speed."""
    never = "was not measured: the run ended before its first window."
    shown: list[Block] = []
    for side in report.sides:
        if side.windows:
            shown.append(section("", *_course(side)))
        elif not side.failure:
            shown.append(Words(f"{side.name} {never}", "warning"))
    said = [*_failed((s.name, s.failure) for s in report.sides)]
    if report.pauses_s:
        told = ", ".join(f"{pause:.0f} s" for pause in report.pauses_s)
        text = f"The sides ran one after another, with pauses to cool down of {told}: compare with care."
        said.append(Words(text))
    said += _energy_reasons(report.sides)
    if report.stopped_by:
        how = "Ctrl-C" if report.stopped_by == "interrupt" else "SIGTERM"
        said.append(Words(f"Ended early by {how}; results until then.", "warning"))
    return [*shown, *([section("", *said)] if said else [])]


def _course(side: "SustainedSide") -> "Iterator[Block]":
    yield Words(f"{side.name} {side.verdict}.", "strong")
    step = -(-len(side.windows) // _MOST_ROWS)
    titles = (">from s", ">p50 ms", ">p99 ms", ">runs /s", ">clock GHz", ">temp. °C", ">others %", ">MiB")
    yield from _table(titles, map(_window, side.windows[::step]))
    yield Drawing(lambda width, plain: _curves(side, min(width, _WIDEST), plain))
    tail = p99(side.p99_ms, side.runs)
    yield Words(
        f"{side.runs:,} runs in {side.seconds:.0f} s of full load: p50 {number(side.p50_ms)} ms, "
        f"{f'p99 {tail} ms, ' if tail else ''}{number(side.throughput_per_s)} a second."
    )
    if side.energy and side.energy.joules_per_run is not None:
        net = side.energy.net_joules_per_run
        without = "" if net is None else f", {number(net * 1e3)} mJ without what the idle device draws"
        whole = f"{number(side.energy.joules_per_run * 1000.0)} mJ per run of the whole device"
        yield Words(f"Energy: {whole}{without}, by {side.energy.source}.")


def _window(window: "Window") -> tuple[str, ...]:
    return (
        f"{window.begin_s:.0f}",
        number(window.p50_ms),
        p99(window.p99_ms, window.runs),
        number(window.throughput_per_s),
        "" if window.clock_hz is None else f"{window.clock_hz / 1e9:.2f}",
        "" if window.temperature_c is None else f"{window.temperature_c:.0f}",
        "" if window.others_percent is None else f"{window.others_percent:.0f}",
        mebibytes(window.memory_bytes),
    )


def _curves(side: "SustainedSide", width: int, plain: bool) -> list[str]:
    from edgeopt.measure.charts import series

    curves: list[tuple[str, str, list[float | None]]] = [
        ("p50", "ms", [w.p50_ms for w in side.windows]),
        ("clock", "GHz", [None if w.clock_hz is None else w.clock_hz / 1e9 for w in side.windows]),
        ("temperature", "°C", [w.temperature_c for w in side.windows]),
    ]
    return [
        line
        for name, unit, values in curves
        for line in series([(name.ljust(11), values)], unit, width, ascii=plain)
    ]


def concurrency(report: "ConcurrencyReport") -> list[Block]:
    """How much more several at once do than one alone."""
    how = (
        f"{report.rounds} interleaved rounds, {report.slice_ms:.0f} ms each; a gain is the median of "
        "ratios within rounds, with its 98 % interval. 100 % efficiency: n at once do n times as "
        "much. Memory is resident; what processes share counts in each."
    )
    return [
        *(section("", *_levels(side)) for side in report.sides),
        section(
            "",
            *_verdicts("Each at its best concurrency", report.comparisons),
            *lines([how, report.measured_while]),
            *_warnings(report.warnings),
        ),
    ]


def _levels(side: "ConcurrencySide") -> "Iterator[Block]":
    ran = [level for level in side.levels if level.throughput_per_s is not None]
    found = (
        (
            "1" if level.count == 1 else f"{level.count} {level.kind}",
            number(level.throughput_per_s),
            "" if level.gain is None else str(level.gain),
            "" if level.efficiency_percent is None else f"{level.efficiency_percent:.0f} %",
            number(level.p50_ms),
            p99(level.p99_ms, level.runs),
            mebibytes(level.memory_bytes),
        )
        for level in ran
    )
    yield Words(side.name, "strong")
    titles = ("=at once", ">runs /s", ">gain", ">efficiency", ">p50 ms", ">p99 ms", ">MiB")
    yield from _table(titles, found)
    yield from _failed((f"{lv.count} {lv.kind}", lv.failure) for lv in side.levels)
    gains = [level for level in ran if level.gain is not None and level.gain.low > 1]
    best = max(gains, key=lambda level: level.gain.median if level.gain else 0.0, default=None)
    if best is not None and best.gain is not None:
        yield Words(f"Highest throughput: {best.count} {best.kind}, {best.gain.median:.2f}x of one alone.")
    elif len(ran) > 1:
        yield Words("None has a higher throughput than one alone.")


def _median(spread: "Spread | None") -> str:
    return number(spread.median if spread else None)


def _range(spread: "Spread | None") -> str:
    return f"{number(spread.low)}-{number(spread.high)}" if spread else ""


def _table(titles: tuple[str, ...], cells: "Iterable[tuple[str, ...]]") -> list[Block]:
    """Columns in which nobody has a value are left out."""
    found = rows(*cells)
    return [filled(Table(columns(*titles), found))] if found else []


def _verdicts(what: str, comparisons: "tuple[Comparison, ...]") -> tuple[Words, ...]:
    return lines((f"{what}: {said(comparison)}" for comparison in comparisons), "strong")


def _energy_reasons(sides: "tuple[PacedSide, ...] | tuple[SustainedSide, ...]") -> tuple[Words, ...]:
    reasons = {side.energy.reason for side in sides if side.energy and side.energy.reason}
    return lines(f"Energy: {reason.rstrip('.')}." for reason in sorted(reasons))


def _failed(failures: "Iterable[tuple[str, str | None]]") -> tuple[Words, ...]:
    told = (f"{name} did not finish: {failure.rstrip('.')}." for name, failure in failures if failure)
    return lines(told, "warning")


def _warnings(warnings: tuple[str, ...]) -> tuple[Words, ...]:
    return lines((f"warning: {warning}" for warning in warnings), "warning")


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
