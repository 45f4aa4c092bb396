"""A contest's report as rows and sentences: what a terminal, a pipe and a Markdown page show alike."""

from collections import Counter
from collections.abc import Sequence
from statistics import median

from edgeopt.commands.documents.blocks import Table, columns, filled, rows
from edgeopt.measure.memory import net_bytes
from edgeopt.measure.messages import StageTimes
from edgeopt.measure.report import Comparison, ContestReport, SideReport
from edgeopt.measure.tally import RUNS_FOR_P99

_MIB = 2**20


def sides_table(report: ContestReport) -> Table:
    """One row a side that ran."""
    titles = (
        *("=", ">p50 ms", ">p90 ms", ">p99 ms", ">runs /s", ">load ms", ">first ms", ">added MiB", ">peak MiB"),
        ">mJ /run",
    )
    return filled(
        Table(columns(*titles), rows(*(_row(side) for side in report.sides if side.figures is not None)))
    )


def _row(side: SideReport) -> tuple[str, ...]:
    found = side.figures
    assert found is not None  # noqa: S101 - asked for sides with figures only
    energy = side.energy.joules_per_run if side.energy else None
    return (
        side.name,
        number(found.p50_ms),
        number(found.p90_ms),
        p99(found.p99_ms, found.runs),
        number(found.throughput_per_s),
        number(load_ms(side)),
        number(median(side.first_runs_ms) if side.first_runs_ms else side.first_run_ms),
        mebibytes(net_bytes(side.memory) if side.memory else None),
        mebibytes(_peak_bytes(side)),
        number(None if energy is None else energy * 1e3),
    )


def load_ms(side: SideReport) -> float | None:
    """The median over its processes: the first of them reads the disk, and any of them may be disturbed."""
    return median(side.loads_ms) if side.loads_ms else side.load_ms


def p99(value: float | None, runs: int) -> str:
    """Empty where there were too few runs for one in a hundred."""
    return number(value if runs >= RUNS_FOR_P99 else None)


def _peak_bytes(side: SideReport) -> int | None:
    """Not of a served model: what can be seen here is its client."""
    if side.kind == "url":
        return None
    inside = side.memory.peak_bytes if side.memory else None
    seen = [value for value in (inside, side.outside_peak_bytes) if value is not None]
    return max(seen) if seen else None


def verdict_lines(report: ContestReport) -> list[str]:
    """A sentence for each comparison, the failed sides, and what holds for all."""
    lines = [said(comparison) for comparison in report.comparisons]
    compared = {comparison.second for comparison in report.comparisons}
    lines += [
        f"{report.sides[0].name} and {side.name}: too few rounds to tell, {report.rounds}."
        for side in report.sides[1:]
        if side.name not in compared and not side.failure and not report.sides[0].failure
    ]
    lines += [f"{side.name} did not finish: {side.failure.rstrip('.')}." for side in report.sides if side.failure]
    return lines


def said(comparison: Comparison) -> str:
    """In words: who is faster, by how much, how surely."""
    first, second, ratio = comparison.first, comparison.second, comparison.speedup
    counted = f"{ratio.rounds} rounds"
    if comparison.verdict == "identical":
        return f"{first} and {second} run the same model in the same way: there is nothing to compare."
    if comparison.verdict in {"faster", "slower"}:
        return f"{first} is {comparison.verdict} than {second}: {ratio}, {counted}."
    if comparison.verdict == "no difference seen":
        most = comparison.at_most_percent
        bound = f" (at most {number(most)} %)" if most is not None else ""
        return f"{first} and {second}: no difference seen{bound}, {counted}."
    return f"{first} and {second}: {comparison.verdict}; {ratio} so far, {counted}."


def circumstance_lines(report: ContestReport) -> list[str]:
    """How it was measured, once below the table."""
    lines = []
    shared = _shared_options(report)
    data = f"Inputs: {report.data}." if report.data else ""
    lines.append(" ".join(part for part in (data, f"All sides with {shared}." if shared else "") if part))
    if report.measured_while:
        lines.append(f"{report.measured_while[0].upper()}{report.measured_while[1:].rstrip('.')}.")
    lines += _stage_lines(report)
    lines += _loading_lines(report)
    reasons = {s.energy.reason for s in report.sides if s.energy and s.energy.reason}
    lines += [f"Energy is not measurable here: {reason.rstrip('.')}." for reason in sorted(reasons)]
    lines += [_energy_line(side) for side in report.sides if side.energy and side.energy.source][:1]
    lines += _counter_lines(report)
    return [line for line in lines if line]


def _stage_lines(report: ContestReport) -> list[str]:
    """What bundles do before and after their model, which is in no other figure."""
    return [f"{side.name}: {stages_said(side.stages)}." for side in report.sides if side.stages is not None]


def stages_said(times: StageTimes) -> str:
    """In one process, one after the other."""
    parts = [
        ("preprocessing", times.pre_ms),
        ("inference", times.inference_ms),
        ("postprocessing", times.post_ms),
    ]
    known = [f"{name} {number(value)} ms" for name, value in parts if value is not None]
    return f"{', '.join(known)}, medians of {times.runs} runs one after the other; the table is inference alone"


def _loading_lines(report: ContestReport) -> list[str]:
    """Between what the times of loading and of the first run lay, where there were several."""
    told = [
        f"{side.name} {_range(side.loads_ms)} and {_range(side.first_runs_ms)} in {len(side.loads_ms)}"
        for side in report.sides
        if side.figures and len(side.loads_ms) > 1 and side.first_runs_ms
    ]
    return [f"load ms and first ms are medians of several processes: {'; '.join(told)}."] if told else []


def _range(values: Sequence[float]) -> str:
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


def _energy_line(side: SideReport) -> str:
    assert side.energy is not None  # noqa: S101 - asked for sides with energy only
    idle = f"; {number(side.energy.idle_watts)} W of that the idle device" if side.energy.idle_watts else ""
    return f"Energy is that of the whole device, by {side.energy.source}{idle}."


# What they are called here, and what to multiply them by.
_COUNTERS = {
    "instructions": ("instructions", 1.0),
    "cycles": ("cycles", 1.0),
    "cache_references": ("cache references", 1.0),
    "cache_misses": ("cache misses", 1.0),
    "branch_misses": ("branch misses", 1.0),
    "page_faults": ("page faults", 1.0),
    "context_switches": ("context switches", 1.0),
    "task_clock_ns": ("ms of CPU time", 1e-6),
}


def _counter_lines(report: ContestReport) -> list[str]:
    """The best known ones, and what came from memory; `--json` has all."""
    from edgeopt.measure.instruments.counters import memory_bytes_estimate

    lines = []
    for side in report.sides:
        told = [
            f"{number(side.counters_per_run[name] * factor)} {words}"
            for name, (words, factor) in _COUNTERS.items()
            if name in side.counters_per_run
        ]
        from_memory = memory_bytes_estimate(side.counters_per_run)
        if from_memory is not None and side.figures is not None:
            gigabytes_per_s = from_memory * side.figures.throughput_per_s / 1e9
            rate = f"{number(gigabytes_per_s)} GB/s"
            mebibytes_told = number(from_memory / _MIB)
            told.append(f"{mebibytes_told} MiB from memory, or {rate} (an estimate; the truth is higher)")
        if told:
            lines.append(f"{side.name}, a run: {', '.join(told)}.")
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
        placed = side.placement
        if placed is None or not placed.fallen:
            continue
        total = sum(placed.nodes.values())
        by_place = ", ".join(f"{place} runs {count}" for place, count in placed.nodes.items())
        types = Counter(fallen.partition(":")[0] for fallen in placed.fallen)
        named = ", ".join(f"{count} {kind}" for kind, count in types.most_common(5))
        more = f" and {len(types) - 5} more types" if len(types) > 5 else ""
        crossing = f"; data crosses between them at {placed.boundaries} places" if placed.boundaries else ""
        whole_ms = sum(placed.time_ms.values())
        shares = ", ".join(f"{place} {ms / (whole_ms or 1):.0%}" for place, ms in placed.time_ms.items())
        spent = f"; share of the time of one run: {shares}" if shares else ""
        lines.append(
            f"{side.name}: {len(placed.fallen)} of {total} nodes fell back from {placed.wanted} "
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


def mebibytes(value: int | None) -> str:
    return number(None if value is None else value / _MIB)
