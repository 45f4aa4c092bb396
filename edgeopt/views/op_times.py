"""Display of the time of each operator in a run: `edgeopt analyze --profile-ops`."""

from collections import defaultdict
from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.views.blocks import (
    Row,
    Section,
    Share,
    Table,
    WordsBlock,
    filled,
    lines,
    section,
    some,
    table_of,
)
from edgeopt.views.words import milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from edgeopt.graph.analysis import OpTimeRow, OpTimes

_SHOWN = 15
_NAMED = 2
_MOSTLY = 0.75
_FEWEST_RUNS = 5
_STEPS_MS = 0.01
"""Times of a few microseconds are within the steps of the runtime's clock."""
_CONVERSIONS = ("Reorder", "Convert", "Cast", "Transpose", "Reshape", "Memcpy", "Quantize", "Dequantize")


def op_times(times: "OpTimes") -> Section:
    """The kernels that take the longest, and the sums by what they do; a sentence where nothing was measured."""
    title = f"Time by node: {_title(times)}"
    if not times.rows:
        reason = times.reason or "no node ran"
        return section(title, WordsBlock(f"Nothing was measured: {reason.rstrip('.')}."))
    kinds = (("by kernel", lambda row: row.operator or "unknown"), ("by category", _category))
    grouped = ((name, _grouped(times.rows, kind)) for name, kind in kinds)
    sums = (section("", _sum_table(name, groups)) for name, groups in grouped if len(groups) > 1)
    notes = (section("", WordsBlock(note)) for note in _notes(times))
    return section(title, *lines(_run_lines(times)), section("", _kernels(times)), *sums, *notes)


def why_unreliable(row: "OpTimeRow", times: "OpTimes") -> str:
    """Returns the reason that a kernel's time may differ in another run; empty if it is reliable."""
    if times.runs < _FEWEST_RUNS:
        return f"Measured in only {times.runs} run{'s' * (times.runs != 1)}"
    if row.range_ms is not None and row.range_ms[1] - row.range_ms[0] > max(row.time_ms, _STEPS_MS):
        return "Its runs differ by more than the time itself"
    return ""


def spread(row: "OpTimeRow") -> str:
    """The times of the middle half of the runs: `1.1 to 1.3 ms`."""
    if row.range_ms is None:
        return ""
    low, high = map(milliseconds, row.range_ms)
    number, _, unit = low.partition(" ")
    return f"{number if high.endswith(f' {unit}') else low} to {high}"


def _title(times: "OpTimes") -> str:
    threads = "" if times.threads is None else f", {times.threads} thread{'s' if times.threads != 1 else ''}"
    return f"{times.backend} {times.version}{threads}".replace("  ", " ")


def _run_lines(times: "OpTimes") -> "Iterator[str]":
    run, inside = milliseconds(times.run_ms), milliseconds(times.kernels_ms)
    yield f"{run} a run while profiling (median of {times.runs} runs), {inside} of it in kernels."
    if times.plain_ms:
        ratio = times.run_ms / times.plain_ms
        adds = f"adds {units.percent(ratio - 1, 0)}" if ratio < 2 else f"makes it {ratio:.1f} times as long"
        adds = adds if ratio >= 1.02 else "adds almost nothing"
        yield f"{milliseconds(times.plain_ms)} a run without: profiling {adds}."


def _kernels(times: "OpTimes") -> Table:
    shown = table_of(
        times.rows[:_SHOWN],
        ("=kernel", lambda row: row.operator or row.kernel),
        ("nodes", _members),
        (">time", lambda row: milliseconds(row.time_ms)),
        (">share", lambda row: Share(row.share)),
        (">half of the runs", spread),
        (">GFLOP/s", _rate),
        (
            ">of peak",
            lambda row: units.percent(row.least_ms / row.time_ms, 0) if row.least_ms and row.time_ms else "",
        ),
        ("!bound", lambda row: row.bound),
    )
    rest = times.rows[_SHOWN:]
    if not rest:
        return filled(shown)
    share = units.percent(sum(row.share for row in rest))
    last = Row((f"{len(rest):,} more", "", milliseconds(sum(row.time_ms for row in rest)), share))
    return filled(Table(shown.columns, (*shown.rows, last)))


def _members(row: "OpTimeRow") -> str:
    if not row.members:
        return f"{row.kernel} (not attributed)"
    members = some(row.members, _NAMED)
    return f"for {members}" if row.added else members


def _category(row: "OpTimeRow") -> str:
    """Returns the main category of a kernel: a convolution fused with its activation is a convolution."""
    if not row.members:
        return "not attributed"
    if row.added and row.operator.startswith(_CONVERSIONS):
        return "conversions that the runtime added"
    order = ("matrix product", "convolution", "attention", "recurrent", "normalization", "pooling")
    known = [each for each in order if each in row.categories]
    return (known or [*row.categories, "unknown"])[0]


def _grouped(
    rows: "Iterable[OpTimeRow]", key: "Callable[[OpTimeRow], str]"
) -> "list[tuple[str, int, float, float]]":
    groups: dict[str, list[OpTimeRow]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    found = [(name, len(rs), sum(r.time_ms for r in rs), sum(r.share for r in rs)) for name, rs in groups.items()]
    return sorted(found, key=lambda group: -group[2])


def _sum_table(title: str, groups: "list[tuple[str, int, float, float]]") -> Table:
    return table_of(
        [group for group in groups if group[3] >= 0.001],
        (title, lambda group: group[0]),
        (">kernels", lambda group: f"{group[1]:,}"),
        (">time", lambda group: milliseconds(group[2])),
        (">share", lambda group: Share(group[3])),
    )


def _notes(times: "OpTimes") -> "Iterator[str]":
    if times.attributed_share < 0.9995:
        yield f"{units.percent(1 - times.attributed_share)} of the time is not attributed to nodes of the model."
    if times.kernels_ms < _MOSTLY * times.run_ms:
        yield (
            "Much of a run is outside the kernels: the runtime's own work, its profiler, and whatever "
            "else runs on this device."
        )
    unsure = [row for row in times.rows[:_SHOWN] if why_unreliable(row, times)]
    if unsure:
        names = some([row.members[0] if row.members else row.kernel for row in unsure], _NAMED)
        yield f"Unreliable times: {names}. {why_unreliable(unsure[0], times)}."
    if not any(row.least_ms for row in times.rows):
        yield "The peaks of this device are unknown; measure them with: edgeopt probe --deep"


def _rate(row: "OpTimeRow") -> str:
    return f"{row.operations / row.time_ms / 1e6:.1f}" if row.operations and row.time_ms else ""
