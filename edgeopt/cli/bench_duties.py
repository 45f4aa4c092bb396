"""How the duty cycles of `edgeopt bench` are shown to people."""

from typing import TYPE_CHECKING

from edgeopt.cli.bench_rows import Rows, filled, mebibytes, number, p99, said

if TYPE_CHECKING:
    from rich.console import Console

    from edgeopt.bench.duties.records import (
        ColdReport,
        ConcurrencyReport,
        ConcurrencySide,
        PacedReport,
        PacedSide,
        Spread,
        SustainedReport,
        SustainedSide,
    )
    from edgeopt.bench.report import Comparison

_MOST_ROWS = 12


def show_cold(report: "ColdReport", console: "Console") -> None:
    """Where the time to the first answer goes, and who gives it first."""
    columns = ("", "process ms", "import ms", "load ms", "first_run ms", "first_answer ms", "middle_half ms")
    rows = [
        [
            side.name,
            *(_median(s) for s in (side.start_ms, side.import_ms, side.load_ms, side.first_run_ms, side.total_ms)),
            _range(side.total_ms),
        ]
        for side in report.sides
        if side.starts
    ]
    _table(console, columns, rows)
    _verdicts(console, "To the first answer", report.comparisons)
    _verdicts(console, "Loading alone", report.load_comparisons)
    _failed(console, [(s.name, s.failure) for s in report.sides])
    starts = max((len(side.starts) for side in report.sides), default=0)
    _line(console, f"{starts} starts of each, in turns; medians. {report.cache}")
    _while(console, report.measured_while)
    _line(console, "'process' is the start of Python and of edgeopt's trial; a program of yours has another.")


def show_paced(report: "PacedReport", console: "Console") -> None:
    """Latencies at the rate, what they cost, and whether it was kept."""
    rate = f"{report.rate_per_s:g}"
    columns = (
        "",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        f"of_{rate} /s",
        "missed %",
        "CPU_ms /run",
        "of_a core",
        "mJ /run",
    )
    _table(console, columns, [_paced_row(side) for side in report.sides if side.runs])
    _verdicts(console, "At the median", report.comparisons)
    _verdicts(console, "At the 99th percentile", report.tail_comparisons)
    _failed(console, [(s.name, s.failure) for s in report.sides])
    _line(
        console,
        f"{rate} runs a second by the clock, {report.rounds} rounds with {report.slice_s:.2g} s for each side.",
    )
    _energy_reasons(console, report.sides)
    _while(console, report.measured_while)
    _warn(console, report.warnings)


def _paced_row(side: "PacedSide") -> list[str]:
    joules = side.energy.joules_per_run if side.energy else None
    return [
        side.name,
        number(side.p50_ms),
        number(side.p90_ms),
        p99(side.p99_ms, side.runs),
        number(side.achieved_per_s),
        f"{100 * side.missed_runs / (side.runs + side.missed_runs):.1f}",
        number(side.cpu_ms_per_run),
        "" if side.cpu_percent is None else f"{side.cpu_percent:.0f} %",
        number(None if joules is None else joules * 1e3),
    ]


def show_sustained(report: "SustainedReport", console: "Console") -> None:
    """Each side over time, and whether it kept its speed."""
    for position, side in enumerate(report.sides):
        if position:
            console.print()
        if side.windows:
            _course(side, console)
        elif not side.failure:
            _line(console, f"{side.name} was not measured: the run ended before its first window.", style="yellow")
    _failed(console, [(s.name, s.failure) for s in report.sides])
    if report.pauses_s:
        told = ", ".join(f"{pause:.0f} s" for pause in report.pauses_s)
        _line(console, f"The sides ran one after another, with pauses to cool down of {told}: compare with care.")
    _energy_reasons(console, report.sides)
    if report.stopped_by:
        how = "Ctrl-C" if report.stopped_by == "interrupt" else "SIGTERM"
        _line(console, f"Ended early by {how}; this is what there was by then.", style="yellow")


def _course(side: "SustainedSide", console: "Console") -> None:
    from edgeopt.bench.drawing.chart import series

    _line(console, f"{side.name} {side.verdict}.", bold=True)
    step = -(-len(side.windows) // _MOST_ROWS)
    columns = ("from s", "p50 ms", "p99 ms", "runs /s", "clock GHz", "temp. °C", "others %", "MiB")
    rows = []
    for window in side.windows[::step]:
        clock = window.clock_hz
        rows.append(
            [
                f"{window.begin_s:.0f}",
                number(window.p50_ms),
                p99(window.p99_ms, window.runs),
                number(window.throughput_per_s),
                "" if clock is None else f"{clock / 1e9:.2f}",
                "" if window.temperature_c is None else f"{window.temperature_c:.0f}",
                "" if window.others_percent is None else f"{window.others_percent:.0f}",
                mebibytes(window.memory_bytes),
            ]
        )
    _table(console, columns, rows)
    tail = p99(side.p99_ms, side.runs)
    curves: list[tuple[str, str, list[float | None]]] = [
        ("p50", "ms", [w.p50_ms for w in side.windows]),
        ("clock", "GHz", [None if w.clock_hz is None else w.clock_hz / 1e9 for w in side.windows]),
        ("temperature", "°C", [w.temperature_c for w in side.windows]),
    ]
    for name, unit, values in curves:
        plain = not _can_draw(console)
        for line in series([(name.ljust(11), values)], unit, min(console.width, 100), ascii=plain):
            console.print(line, markup=False)
    _line(
        console,
        f"{side.runs:,} runs in {side.seconds:.0f} s of full load: p50 {number(side.p50_ms)} ms, "
        f"{f'p99 {tail} ms, ' if tail else ''}{number(side.throughput_per_s)} a second.",
    )
    if side.energy and side.energy.joules_per_run is not None:
        net = side.energy.net_joules_per_run
        without = "" if net is None else f", {number(net * 1e3)} mJ without what the idle device draws"
        whole = f"{number(side.energy.joules_per_run * 1e3)} mJ of the whole device a run"
        _line(console, f"Energy: {whole}{without}, by {side.energy.source}.")


def show_concurrency(report: "ConcurrencyReport", console: "Console") -> None:
    """How much more several at once do than one alone."""
    for position, side in enumerate(report.sides):
        if position:
            console.print()
        _levels(side, console)
    _verdicts(console, "As many at once as each does best with", report.comparisons)
    _line(
        console,
        f"{report.rounds} rounds in turns, {report.slice_ms:.0f} ms each; a gain is the median of ratios within "
        "rounds, with its 98 % interval. 100 % efficiency: n at once do n times as much. Memory is resident; "
        "what processes share counts in each.",
    )
    _while(console, report.measured_while)
    _warn(console, report.warnings)


def _levels(side: "ConcurrencySide", console: "Console") -> None:
    columns = ("at_once", "runs /s", "gain", "efficiency", "p50 ms", "p99 ms", "MiB")
    rows = []
    ran = [level for level in side.levels if level.throughput_per_s is not None]
    for level in ran:
        gain = level.gain
        rows.append(
            [
                "1" if level.count == 1 else f"{level.count} {level.kind}",
                number(level.throughput_per_s),
                "" if gain is None else f"{gain.median:.2f}x [{gain.low:.2f} {gain.high:.2f}]",
                "" if level.efficiency_percent is None else f"{level.efficiency_percent:.0f} %",
                number(level.p50_ms),
                p99(level.p99_ms, level.runs),
                mebibytes(level.memory_bytes),
            ]
        )
    _line(console, side.name, bold=True)
    _table(console, columns, rows)
    _failed(console, [(f"{lv.count} {lv.kind}", lv.failure) for lv in side.levels])
    gains = [level for level in ran if level.gain is not None and level.gain.low > 1]
    best = max(gains, key=lambda level: level.gain.median if level.gain else 0.0, default=None)
    if best is not None and best.gain is not None:
        _line(console, f"Most a second: {best.count} {best.kind}, {best.gain.median:.2f}x of one alone.")
    elif len(ran) > 1:
        _line(console, "None of them is seen to do more than one alone.")


def _median(spread: "Spread | None") -> str:
    return number(spread.median if spread else None)


def _range(spread: "Spread | None") -> str:
    return f"{number(spread.low)}-{number(spread.high)}" if spread else ""


def _table(console: "Console", columns: tuple[str, ...], rows: list[list[str]]) -> None:
    """Columns in which nobody has a value are left out."""
    from edgeopt.cli.bench_show import table

    if not rows:
        return
    shown = filled(Rows(tuple(title.replace("_", "\u00a0") for title in columns), rows))
    console.print(table(shown, console.width))


def _verdicts(console: "Console", what: str, comparisons: "tuple[Comparison, ...]") -> None:
    for comparison in comparisons:
        _line(console, f"{what}: {said(comparison)}", bold=True)


def _energy_reasons(console: "Console", sides: "tuple[PacedSide, ...] | tuple[SustainedSide, ...]") -> None:
    for reason in sorted({side.energy.reason for side in sides if side.energy and side.energy.reason}):
        _line(console, f"Energy: {reason.rstrip('.')}.")


def _while(console: "Console", sentence: str) -> None:
    if sentence:
        _line(console, sentence)


def _failed(console: "Console", failures: list[tuple[str, str | None]]) -> None:
    for name, failure in failures:
        if failure:
            _line(console, f"{name} did not finish: {failure.rstrip('.')}.", style="yellow")


def _warn(console: "Console", warnings: tuple[str, ...]) -> None:
    for warning in warnings:
        _line(console, f"warning: {warning}", style="yellow")


def _line(console: "Console", text: str, *, bold: bool = False, style: str = "") -> None:
    from edgeopt.cli.bench_show import print_line

    print_line(console, text, bold=bold, style=style)


def _can_draw(console: "Console") -> bool:
    return console.encoding.lower().startswith("utf")
