"""Duty cycles and sweeps of `edgeopt bench`, as people see them."""

from typing import TYPE_CHECKING

from edgeopt.cli.bench_rows import (
    comparison_text,
    failures,
    mebibytes,
    millijoules,
    number,
    p99,
    span,
    table,
)
from edgeopt.units import count
from edgeopt.views.blocks import (
    Block,
    Drawing,
    WordsBlock,
    lines,
    section,
    warnings,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from edgeopt.commands.bench.sweep import SweepPoint, SweepReport, Value
    from edgeopt.measure.report import Comparison
    from edgeopt.measure.stats import Interval
    from edgeopt.measure.workloads.records import (
        ColdReport,
        ColdSide,
        ConcurrencyReport,
        ConcurrencySide,
        GenerateReport,
        PacedReport,
        PacedSide,
        Spread,
        SustainedReport,
        SustainedSide,
    )

_MAX_ROWS = 12
_WIDEST = 100
_BEST = "*"


def cold(report: "ColdReport") -> list[Block]:
    """Returns the phases of the time to the first answer, and the verdict on who gives it first."""
    starts = max((len(side.starts) for side in report.sides), default=0)
    return [
        *table(
            [side for side in report.sides if side.starts],
            "name",
            *(_phase(*each) for each in _PHASES),
            (
                ">middle half ms",
                lambda side: span((side.total_ms.low, side.total_ms.high)) if side.total_ms else "",
            ),
        ),
        *_verdicts("To the first answer", report.comparisons),
        *_verdicts("Loading alone", report.load_comparisons),
        *_failed((s.name, s.failure) for s in report.sides),
        WordsBlock(f"{starts} starts of each, interleaved; medians. {report.cache}"),
        *lines([report.measured_while]),
        WordsBlock("'process' is the start of Python and of edgeopt's trial; your own program has another."),
    ]


def paced(report: "PacedReport") -> list[Block]:
    """Latencies at the rate, what they cost, and whether it was kept."""
    rate = f"{report.rate_per_s:g}"
    kept = f"{rate} runs a second by the clock, {report.rounds} rounds with {report.slice_s:.2g} s for each side."
    return [
        *table(
            [side for side in report.sides if side.runs],
            "name",
            "p50",
            "p90",
            "p99",
            (f">of {rate} /s", lambda side: number(side.achieved_per_s)),
            (">missed %", lambda side: f"{100 * side.missed_runs / (side.runs + side.missed_runs):.1f}"),
            (">CPU ms /run", lambda side: number(side.cpu_ms_per_run)),
            (">of a core", lambda side: _whole(side.cpu_percent, " %")),
            "energy",
        ),
        *_verdicts("At the median", report.comparisons),
        *_verdicts("At the 99th percentile", report.tail_comparisons),
        *_failed((s.name, s.failure) for s in report.sides),
        WordsBlock(kept),
        *_energy_reasons(report.sides),
        *lines([report.measured_while]),
        *warnings(report.warnings),
    ]


def generate(report: "GenerateReport") -> list[Block]:
    """Time to the first token and tokens per second of each language model, and the verdicts on both."""
    return [
        *table(
            [side for side in report.sides if side.answers],
            "name",
            (">first token ms", lambda side: number(side.first_token_ms)),
            (">tokens /s", lambda side: number(side.tokens_per_s)),
            (">token ms", lambda side: number(side.token_ms)),
            (">load ms", lambda side: number(side.load_ms)),
            "added",
            (">peak MiB", lambda side: mebibytes(side.memory.peak_bytes if side.memory else None)),
        ),
        *lines(answer_verdicts(report), "strong"),
        WordsBlock(answers_line(report)),
        *lines([report.measured_while]),
        *warnings(report.warnings),
    ]


def answer_verdicts(report: "GenerateReport") -> list[str]:
    """Returns a sentence for each comparison, that of tokens per second first, and for each failed side."""
    found = [f"By tokens per second: {comparison_text(each)}" for each in report.comparisons]
    found += [f"To the first token: {comparison_text(each)}" for each in report.first_comparisons]
    return found + failures((side.name, side.failure) for side in report.sides)


def answers_line(report: "GenerateReport") -> str:
    """Returns the sentence on what was generated after which prompts."""
    prompt, new = (count(number_of, "token") for number_of in (report.prompt_tokens, report.new_tokens))
    return (
        f"An answer has {new} after a prompt of {prompt}, one at a time; medians of all "
        f"answers of {count(report.rounds, 'round')}. Inputs: {report.data}."
    )


def sustained(report: "SustainedReport") -> list[Block]:
    """Each side over time, and whether it kept its speed."""
    never = "was not measured: the run ended before its first window."
    shown: list[Block] = []
    for side in report.sides:
        if side.windows:
            shown.append(section("", *_window_blocks(side)))
        elif not side.failure:
            shown.append(WordsBlock(f"{side.name} {never}", "warning"))
    notes = [*_failed((s.name, s.failure) for s in report.sides)]
    if report.pauses_s:
        pauses = ", ".join(f"{pause:.0f} s" for pause in report.pauses_s)
        text = f"The sides ran one after another, with pauses to cool down of {pauses}: compare with care."
        notes.append(WordsBlock(text))
    notes += _energy_reasons(report.sides)
    if report.stopped_by:
        how = "Ctrl-C" if report.stopped_by == "interrupt" else "SIGTERM"
        notes.append(WordsBlock(f"Ended early by {how}; results until then.", "warning"))
    return [*shown, *([section("", *notes)] if notes else [])]


def _window_blocks(side: "SustainedSide") -> "Iterator[Block]":
    yield WordsBlock(f"{side.name} {side.verdict}.", "strong")
    digits = 0 if side.windows[0].seconds >= 1 else 2
    yield from table(
        side.windows[:: -(-len(side.windows) // _MAX_ROWS)],
        (">from s", lambda window: f"{window.begin_s:.{digits}f}"),
        "p50",
        "p99",
        "runs",
        (">clock GHz", lambda window: "" if window.clock_hz is None else f"{window.clock_hz / 1e9:.2f}"),
        (">temp. °C", lambda window: _whole(window.temperature_c)),
        (">others %", lambda window: _whole(window.others_percent)),
        "resident",
    )
    yield Drawing(lambda width, plain: _curves(side, min(width, _WIDEST), plain))
    tail = p99(side.p99_ms, side.runs)
    yield WordsBlock(
        f"{side.runs:,} runs in {side.seconds:.0f} s of full load: p50 {number(side.p50_ms)} ms, "
        f"{f'p99 {tail} ms, ' if tail else ''}{number(side.throughput_per_s)} a second."
    )
    if side.energy and side.energy.joules_per_run is not None:
        net = side.energy.net_joules_per_run
        without = "" if net is None else f", {number(net * 1e3)} mJ without what the idle device draws"
        whole = f"{millijoules(side.energy)} mJ per run of the whole device"
        yield WordsBlock(f"Energy: {whole}{without}, by {side.energy.source}.")


def _whole(value: float | None, unit: str = "") -> str:
    return "" if value is None else f"{value:.0f}{unit}"


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
    """Returns the throughput at each concurrency, and its gain over one alone."""
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
            *warnings(report.warnings),
        ),
    ]


def _levels(side: "ConcurrencySide") -> "Iterator[Block]":
    ran = [level for level in side.levels if level.throughput_per_s is not None]
    yield WordsBlock(side.name, "strong")
    yield from table(
        ran,
        ("=at once", lambda level: "1" if level.count == 1 else f"{level.count} {level.kind}"),
        "runs",
        (">gain", lambda level: "" if level.gain is None else str(level.gain)),
        (">efficiency", lambda level: _whole(level.efficiency_percent, " %")),
        "p50",
        "p99",
        "resident",
    )
    yield from _failed((f"{lv.count} {lv.kind}", lv.failure) for lv in side.levels)
    gains = [(level, level.gain.median) for level in ran if level.gain is not None and level.gain.low > 1]
    if gains:
        best, gain = max(gains, key=lambda each: each[1])
        yield WordsBlock(f"Highest throughput: {best.count} {best.kind}, {gain:.2f}x of one alone.")
    elif len(ran) > 1:
        yield WordsBlock("None has a higher throughput than one alone.")


_PHASES = (
    *(("process", "start_ms"), ("import", "import_ms"), ("load", "load_ms")),
    *(("first run", "first_run_ms"), ("first answer", "total_ms")),
)


def _phase(title: str, name: str) -> "tuple[str, Callable[[ColdSide], str]]":
    def median(side: "ColdSide") -> str:
        spread: Spread | None = getattr(side, name)
        return number(spread.median if spread else None)

    return f">{title} ms", median


def _middle_half(spread: "Spread | None") -> str:
    return span((spread.low, spread.high)) if spread else ""


def _verdicts(what: str, comparisons: "tuple[Comparison, ...]") -> tuple[WordsBlock, ...]:
    return lines((f"{what}: {comparison_text(comparison)}" for comparison in comparisons), "strong")


def _energy_reasons(sides: "tuple[PacedSide, ...] | tuple[SustainedSide, ...]") -> tuple[WordsBlock, ...]:
    reasons = {side.energy.reason for side in sides if side.energy and side.energy.reason}
    return lines(f"Energy: {reason.rstrip('.')}." for reason in sorted(reasons))


def _failed(parts: "Iterable[tuple[str, str | None]]") -> tuple[WordsBlock, ...]:
    return lines(failures(parts), "warning")


def sweep(report: "SweepReport") -> list[Block]:
    ran = [point for point in report.points if point.p50_ms is not None]
    shown: list[Block] = [WordsBlock(f"{report.name} of {report.subject} on {report.backend}", "strong")]
    if ran:
        shown += _option_table(report, ran) if report.kind == "option" else _axis_table(report, ran)
    fallen = _failed((f"{report.name}={written(point.value)}", point.failure) for point in report.points)
    return [*shown, *lines(sentences(report, ran)), *fallen, *warnings(report.warnings)]


def sentences(report: "SweepReport", ran: "list[SweepPoint]") -> list[str]:
    """Returns the results of the table in words."""
    texts = _best_lines(report, ran) if report.kind == "option" else _axis_lines(report, ran)
    if any(point.gain is None for point in ran[1:]):
        texts.append(
            "Where no ratio is shown, its interval is too wide to say anything; more time may tell (--time-limit)."
        )
    if report.measured_while:
        texts.append(report.measured_while)
    return texts


def _option_table(report: "SweepReport", ran: "list[SweepPoint]") -> list[Block]:
    def total(runs: int) -> "Callable[[SweepPoint], str]":
        best = best_value(report, runs) if len(ran) > 1 else None
        return lambda point: f"{_BEST if point.value == best else ''}{duration(point.totals_ms[runs])}"

    return table(
        ran,
        (f"={report.name}", lambda point: written(point.value)),
        "create",
        "run",
        "p99",
        (f">against {written(report.points[0].value)}", lambda point: _gain(point.gain)),
        "added",
        *((f">{count(runs, 'run')}", total(runs)) for runs in report.totals),
    )


def best_value(report: "SweepReport", runs: int) -> "Value | None":
    """The best value for this number of runs."""
    reached = [stretch.value for stretch in report.best_by_runs if stretch.from_runs <= runs]
    return reached[-1] if reached else None


def _best_lines(report: "SweepReport", ran: "list[SweepPoint]") -> list[str]:
    from edgeopt.measure.stats import UNDECIDED

    if len(ran) < 2 or not report.best_by_runs:
        return []
    stretches = report.best_by_runs
    texts = []
    if report.runs is not None:
        value = best_value(report, report.runs)
        point = next(p for p in ran if p.value == value)
        texts.append(
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
    texts.append(
        f"{_BEST} Best, creation and runs together: {', '.join(parts)}. "
        "One that takes longer to create must run 2 % faster to count as better."
    )
    unsure = [written(p.value) for p in ran if p.verdict in UNDECIDED]
    if unsure:
        first = written(report.points[0].value)
        texts.append(f"Not proved to run faster or slower than {first}: {', '.join(unsure)}; more time may tell.")
    return texts


def _axis_table(report: "SweepReport", ran: "list[SweepPoint]") -> list[Block]:
    item = "sample" if report.kind == "batch" else "step"
    return table(
        ran,
        (f">{report.name}", lambda point: written(point.value)),
        "run",
        "p99",
        (f">ms /{item}", lambda point: number(point.item_ms)),
        (f">{item}s /s", lambda point: number(point.throughput_per_s)),
        (f">per {item}, against {written(report.points[0].value)}", lambda point: _gain(point.gain)),
        "create",
        "added",
    )


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
    maximum = f"{report.name}={written(best.value)}, {number(best.throughput_per_s)} ({_gain(best.gain)})"
    later = f"{number(best.p50_ms)} ms instead of {number(first.p50_ms)} ms"
    return [f"Most samples a second: {maximum}; each is answered after {later}."]


def _gain(gain: "Interval | None") -> str:
    return "" if gain is None else str(gain)


def written(value: "Value") -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def duration(milliseconds: float) -> str:
    """Returns a duration in the unit that reads best."""
    if milliseconds < 1e3:
        return f"{number(milliseconds)} ms"
    seconds = milliseconds / 1e3
    return f"{number(seconds)} s" if seconds < 120 else f"{number(seconds / 60)} min"
