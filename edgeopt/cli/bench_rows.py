"""A contest's report as rows and sentences: what a terminal, a pipe and a Markdown page show alike."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

from edgeopt import units
from edgeopt.measure.messages import StageTimes
from edgeopt.measure.report import Comparison, ContestReport, Energy, SideReport
from edgeopt.views.blocks import Block, Cell, Item, filled, table_of
from edgeopt.views.originals import original_lines

_MIB = 2**20


def sides_table(report: ContestReport) -> list[Block]:
    """One row a side that ran."""
    ran = [side for side in report.sides if side.figures is not None]
    return table(ran, "name", "p50", "p90", "p99", "runs", "load", "first", "added", "peak", "energy")


def table(items: Sequence[Item], *columns: str | tuple[str, Callable[[Item], Cell]]) -> list[Block]:
    """The table of any workload; a column is a name in COLUMNS, or a title and a function.

    Columns in which no item has a value are left out, and so is a table without items.
    """
    says = (COLUMNS[column] if isinstance(column, str) else column for column in columns)
    return [filled(table_of(items, *says))] if items else []


def _figures(item: Any) -> Any:  # noqa: ANN401 - records of several workloads have the same figures
    """A side of a contest holds its figures in a record; those of other workloads have them themselves."""
    return getattr(item, "figures", None) or item


def millijoules(energy: Energy | None) -> str:
    joules = energy.joules_per_run if energy else None
    return number(None if joules is None else joules * 1e3)


def _middle(values: Sequence[float], otherwise: float | None) -> float | None:
    """The median over its processes: the first of them reads the disk, and any of them may be disturbed."""
    return median(values) if values else otherwise


def p99(value: float | None, runs: int) -> str:
    """Empty where there were too few runs for one in a hundred."""
    return number(value if runs >= units.RUNS_FOR_P99 else None)


def _peak_bytes(side: SideReport) -> int | None:
    """Not of a served model: what can be seen here is its client."""
    if side.kind == "url":
        return None
    inside = side.memory.peak_bytes if side.memory else None
    seen = [value for value in (inside, side.outside_peak_bytes) if value is not None]
    return max(seen) if seen else None


COLUMNS: dict[str, tuple[str, Callable[[Any], Cell]]] = {
    "name": ("=", lambda item: item.name),
    "p50": (">p50 ms", lambda item: number(_figures(item).p50_ms)),
    "p90": (">p90 ms", lambda item: number(_figures(item).p90_ms)),
    "p99": (
        ">p99 ms",
        lambda item: p99(_figures(item).p99_ms, getattr(_figures(item), "runs", units.RUNS_FOR_P99)),
    ),
    "runs": (">runs /s", lambda item: number(_figures(item).throughput_per_s)),
    "run": (">run ms", lambda item: number(item.p50_ms)),
    "create": (">create ms", lambda item: number(item.create_ms)),
    "load": (">load ms", lambda item: number(_middle(item.loads_ms, item.load_ms))),
    "first": (">first ms", lambda item: number(_middle(item.first_runs_ms, item.first_run_ms))),
    "added": (">added MiB", lambda item: mebibytes(item.memory.added_bytes if item.memory else None)),
    "resident": (">MiB", lambda item: mebibytes(item.memory_bytes)),
    "peak": (">peak MiB", lambda item: mebibytes(_peak_bytes(item))),
    "energy": (">mJ /run", lambda item: millijoules(item.energy)),
}


def verdict_lines(report: ContestReport) -> list[str]:
    """A sentence for each comparison, the failed sides, and what holds for all."""
    lines = [comparison_text(comparison) for comparison in report.comparisons]
    compared = {comparison.second for comparison in report.comparisons}
    lines += [
        f"{report.sides[0].name} and {side.name}: too few rounds to tell, {report.rounds}."
        for side in report.sides[1:]
        if side.name not in compared and not side.failure and not report.sides[0].failure
    ]
    return lines + failures((side.name, side.failure) for side in report.sides)


def failures(parts: Iterable[tuple[str, str | None]]) -> list[str]:
    return [f"{name} did not finish: {failure.rstrip('.')}." for name, failure in parts if failure]


def comparison_text(comparison: Comparison) -> str:
    """Returns a sentence about which side is faster, by how much, and how surely."""
    first, second, ratio = comparison.first, comparison.second, comparison.speedup
    counted = f"{ratio.rounds} rounds" if ratio is not None else ""
    if comparison.verdict == "identical":
        return f"{first} and {second} run the same model in the same way: there is nothing to compare."
    if comparison.verdict in {"faster", "slower"}:
        return f"{first} is {comparison.verdict} than {second}: {ratio}, {counted}."
    if comparison.verdict == "no difference seen":
        maximum = comparison.at_most_percent
        bound = f" (at most {number(maximum)} %)" if maximum is not None else ""
        return f"{first} and {second}: no difference seen{bound}, {counted}."
    so_far = f"; {ratio} so far, {counted}" if ratio is not None and ratio.usable else ""
    return f"{first} and {second}: {comparison.verdict}{so_far}."


def circumstance_lines(report: ContestReport) -> list[str]:
    """Returns the lines below the table: how it was measured, and the pre- and postprocessing of bundles."""
    shared = _shared_options(report)
    data = f"Inputs: {report.data}." if report.data else ""
    lines = [" ".join(part for part in (data, f"All sides with {shared}." if shared else "") if part)]
    if report.measured_while:
        lines.append(f"{report.measured_while[0].upper()}{report.measured_while[1:].rstrip('.')}.")
    lines += [line for original in report.originals for line in original_lines(original)]
    lines += [f"{side.name}: {_stages_text(side.stages)}." for side in report.sides if side.stages is not None]
    lines += _loading_lines(report)
    known = [side.energy for side in report.sides if side.energy]
    reasons = sorted({energy.reason for energy in known if energy.reason})
    lines += [f"Energy is not measurable here: {reason.rstrip('.')}." for reason in reasons]
    for energy in [energy for energy in known if energy.source][:1]:
        idle = f"; {number(energy.idle_watts)} W of that the idle device" if energy.idle_watts else ""
        lines.append(f"Energy is that of the whole device, by {energy.source}{idle}.")
    lines += _counter_lines(report)
    return [line for line in lines if line]


def _stages_text(times: StageTimes) -> str:
    """Returns the times of the stages in words, measured in one process, one after the other."""
    parts = (("pre", times.pre_ms), ("", times.inference_ms), ("post", times.post_ms))
    known = [
        f"{f'{when}processing' if when else 'inference'} {number(value)} ms"
        for when, value in parts
        if value is not None
    ]
    return f"{', '.join(known)}, medians of {times.runs} runs one after the other; the table is inference alone"


def _loading_lines(report: ContestReport) -> list[str]:
    """Between what the times of loading and of the first run lay, where there were several."""
    loadings = [
        f"{side.name} {span(side.loads_ms)} and {span(side.first_runs_ms)} in {len(side.loads_ms)}"
        for side in report.sides
        if side.figures and len(side.loads_ms) > 1 and side.first_runs_ms
    ]
    return [f"load ms and first ms are medians of several processes: {'; '.join(loadings)}."] if loadings else []


def span(values: Sequence[float]) -> str:
    return f"{number(min(values))}-{number(max(values))}"


def _shared_options(report: ContestReport) -> str:
    """Options that every one of several sides has, where the names do not say them."""
    models = [side for side in report.sides if side.kind == "model"]
    if len(models) < 2:
        return ""
    common = {
        name: value
        for name, value in models[0].options.items()
        if all(side.options.get(name) == value and f"{name}=" not in side.name for side in models)
    }
    return ", ".join(f"{name}={value}" for name, value in common.items())


_COUNTERS = (
    *("instructions", "cycles", "cache_references", "cache_misses", "branch_misses"),
    *("page_faults", "context_switches"),
)


def _counter_lines(report: ContestReport) -> list[str]:
    """The best known ones, and what came from memory; `--json` has all."""
    from edgeopt.measure.instruments.counters import memory_bytes_estimate

    lines = []
    for side in report.sides:
        known = side.counters_per_run
        counters = [f"{number(known[name])} {name.replace('_', ' ')}" for name in _COUNTERS if name in known]
        if "task_clock_ns" in known:
            counters.append(f"{number(known['task_clock_ns'] * 1e-6)} ms of CPU time")
        from_memory = memory_bytes_estimate(known)
        if from_memory is not None and side.figures is not None:
            rate = number(from_memory * side.figures.throughput_per_s / 1e9)
            counters.append(
                f"{mebibytes(from_memory)} MiB from memory, or {rate} GB/s (an estimate; the truth is higher)"
            )
        if counters:
            lines.append(f"{side.name}, a run: {', '.join(counters)}.")
    return lines


def settled_lines(report: ContestReport) -> list[str]:
    """Absolute figures that had not settled at the end, or may not; ratios within rounds stand anyway."""
    lines = []
    if names := [side.name for side in report.sides if side.figures and side.figures.stable is False]:
        why = "did not settle: the last three windows differ by more than 10 %"
        lines.append(f"The absolute times of {', '.join(names)} {why}.")
    if names := [side.name for side in report.sides if side.figures and side.figures.stable is None]:
        whose = "the absolute times" if len(names) == len(report.sides) else f"those of {', '.join(names)}"
        lines.append(f"There were too few rounds to tell whether {whose} had settled; ratios do not need that.")
    return lines


def fallback_lines(report: ContestReport) -> list[str]:
    """Nodes that fell back: their number, types, and where they run instead."""
    lines = []
    for side in report.sides:
        placement = side.placement
        if placement is None or not placement.fallen:
            continue
        total = sum(placement.nodes.values())
        by_place = ", ".join(f"{place} runs {count}" for place, count in placement.nodes.items())
        types = Counter(fallen.partition(":")[0] for fallen in placement.fallen)
        named = ", ".join(f"{count} {kind}" for kind, count in types.most_common(5))
        more = f" and {len(types) - 5} more types" if len(types) > 5 else ""
        crossing = f"; data crosses between them at {placement.boundaries} places" if placement.boundaries else ""
        whole_ms = sum(placement.time_ms.values())
        parts = {place: units.percent(ms / (whole_ms or 1), 0) for place, ms in placement.time_ms.items()}
        shares = ", ".join(f"{place} {part}" for place, part in parts.items())
        spent = f"; share of the time of one run: {shares}" if shares else ""
        lines.append(
            f"{side.name}: {len(placement.fallen)} of {total} nodes fell back from {placement.wanted} "
            f"({named}{more}): {by_place}{crossing}{spent}. --strict makes this an error."
        )
    return lines


def number(value: float | None) -> str:
    """Three figures: nothing here is known better; empty where nothing is known."""
    if value is None:
        return ""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M" if abs(value) < 1e9 else f"{value / 1e9:.3g}G"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    decimals = 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:.{decimals}f}"


def mebibytes(value: float | None) -> str:
    return number(None if value is None else value / _MIB)
