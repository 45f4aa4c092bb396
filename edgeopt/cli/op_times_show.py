"""Where the time of a run goes, for people: `edgeopt analyze --profile-ops`."""

from collections import defaultdict
from typing import TYPE_CHECKING

from edgeopt.commands.documents.blocks import Row, Section, Share, Table, Words, columns, filled, lines, section

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from edgeopt.graph.analysis import OpTimeRow, OpTimes

_SHOWN = 15
_NAMED = 2
_MOSTLY = 0.75
_CONVERSIONS = ("Reorder", "Convert", "Cast", "Transpose", "Reshape", "Memcpy", "Quantize", "Dequantize")


def op_times(times: "OpTimes") -> Section:
    """The kernels that take the longest, and the sums by what they do; a sentence where nothing was measured."""
    title = f"Time by node: {_title(times)}"
    if not times.rows:
        reason = times.reason or "no node ran"
        return section(title, Words(f"Nothing was measured: {reason.rstrip('.')}."))
    sums = (section("", _sum_table(name, groups)) for name, groups in _sums(times) if len(groups) > 1)
    notes = (section("", Words(note)) for note in _notes(times))
    return section(title, *lines(_run_lines(times)), section("", _kernels(times)), *sums, *notes)


def _title(times: "OpTimes") -> str:
    threads = "" if times.threads is None else f", {times.threads} thread{'s' if times.threads != 1 else ''}"
    return f"{times.backend} {times.version}{threads}".replace("  ", " ")


def _run_lines(times: "OpTimes") -> list[str]:
    inside = _ms(times.kernels_ms)
    told = [f"{_ms(times.run_ms)} a run while profiling (median of {times.runs} runs), {inside} of it in kernels."]
    if times.plain_ms:
        told.append(f"{_ms(times.plain_ms)} a run without: profiling {_adds(times.run_ms / times.plain_ms)}.")
    return told


def _adds(ratio: float) -> str:
    if ratio < 1.02:
        return "adds almost nothing"
    return f"adds {ratio - 1:.0%}" if ratio < 2 else f"makes it {ratio:.1f} times as long"


def _kernels(times: "OpTimes") -> Table:
    rows = [
        Row(
            (
                row.operator or row.kernel,
                _members(row),
                _ms(row.time_ms),
                Share(row.share),
                _rate(row),
                _of_peak(row),
                row.bound,
            )
        )
        for row in times.rows[:_SHOWN]
    ]
    rest = times.rows[_SHOWN:]
    if rest:
        share = f"{sum(row.share for row in rest):.1%}"
        rows.append(Row((f"{len(rest):,} more", "", _ms(sum(row.time_ms for row in rest)), share)))
    titles = columns("=kernel", "nodes", ">time", ">share", ">GFLOP/s", ">of peak", "!bound")
    return filled(Table(titles, tuple(rows)))


def _members(row: "OpTimeRow") -> str:
    if not row.members:
        return f"{row.kernel} (not attributed)"
    names = ", ".join(row.members[:_NAMED])
    more = len(row.members) - _NAMED
    told = f"{names} and {more} more" if more > 0 else names
    return f"for {told}" if row.added else told


def _sums(times: "OpTimes") -> "list[tuple[str, list[tuple[str, int, float, float]]]]":
    def category(row: "OpTimeRow") -> str:
        if not row.members:
            return "not attributed"
        added = row.added and row.operator.startswith(_CONVERSIONS)
        return "conversions that the runtime added" if added else _heaviest(row)

    return [
        ("by kernel", _grouped(times.rows, lambda row: row.operator or "unknown")),
        ("by category", _grouped(times.rows, category)),
    ]


def _heaviest(row: "OpTimeRow") -> str:
    """Of a fused kernel, what it is known for: a convolution with its activation is a convolution."""
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
    rows = (
        Row((name, f"{count:,}", _ms(time_ms), Share(share)))
        for name, count, time_ms, share in groups
        if share >= 0.001
    )
    return Table(columns(title, ">kernels", ">time", ">share"), tuple(rows))


def _notes(times: "OpTimes") -> "list[str]":
    notes = []
    if times.attributed_share < 0.9995:
        notes.append(f"{1 - times.attributed_share:.1%} of the time is not attributed to nodes of the model.")
    if times.kernels_ms < _MOSTLY * times.run_ms:
        notes.append(
            "Much of a run is outside the kernels: the runtime's own work, its profiler, and whatever "
            "else runs on this device."
        )
    if not any(row.least_ms for row in times.rows):
        notes.append("The peaks of this device are unknown; measure them with: edgeopt probe --deep")
    return notes


def _rate(row: "OpTimeRow") -> str:
    return f"{row.operations / row.time_ms / 1e6:.1f}" if row.operations and row.time_ms else ""


def _of_peak(row: "OpTimeRow") -> str:
    return f"{row.least_ms / row.time_ms:.0%}" if row.least_ms and row.time_ms else ""


def _ms(time_ms: float) -> str:
    if time_ms < 0.1:
        return f"{time_ms * 1e3:.1f} µs"
    return f"{time_ms:.3g} ms" if time_ms < 100 else f"{time_ms:.0f} ms"
