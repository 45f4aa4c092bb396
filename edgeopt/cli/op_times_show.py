"""Where the time of a run goes, for people: `edgeopt analyze --profile-ops`."""

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.console import Console
    from rich.table import Table

    from edgeopt.graph.analysis import OpTimeRow, OpTimes

_SHOWN = 15
_NAMED = 2
_BAR = 16
_MOSTLY = 0.75
_CONVERSIONS = ("Reorder", "Convert", "Cast", "Transpose", "Reshape", "Memcpy", "Quantize", "Dequantize")


def show_op_times(times: "OpTimes", console: "Console") -> None:
    """The kernels that take the longest, and the sums by what they do; a sentence where nothing was measured."""
    console.print(f"\nTime by node: {_title(times)}", markup=False, style="bold")
    if not times.rows:
        reason = times.reason or "no node ran"
        console.print(f"Nothing was measured: {reason.rstrip('.')}.", markup=False)
        return
    console.print(_run_line(times), markup=False)
    console.print()
    console.print(_kernels(times, console.width))
    for title, groups in _sums(times):
        if len(groups) > 1:
            console.print()
            console.print(_sum_table(title, groups))
    for note in _notes(times):
        console.print(f"\n{note}", markup=False)


def _title(times: "OpTimes") -> str:
    threads = "" if times.threads is None else f", {times.threads} thread{'s' if times.threads != 1 else ''}"
    return f"{times.backend} {times.version}{threads}".replace("  ", " ")


def _run_line(times: "OpTimes") -> str:
    inside = _ms(times.kernels_ms)
    told = f"{_ms(times.run_ms)} a run while profiling (median of {times.runs} runs), {inside} of it in kernels."
    if times.plain_ms:
        told += f"\n{_ms(times.plain_ms)} a run without: profiling {_adds(times.run_ms / times.plain_ms)}."
    return told


def _adds(ratio: float) -> str:
    if ratio < 1.02:
        return "adds next to nothing"
    return f"adds {ratio - 1:.0%}" if ratio < 2 else f"makes it {ratio:.1f} times as long"


def _kernels(times: "OpTimes", width: int) -> "Table":
    from rich.table import Table
    from rich.text import Text

    peaks = any(row.least_ms for row in times.rows)
    rates = any(row.operations for row in times.rows)
    table = Table(box=None, pad_edge=False)
    table.add_column("kernel", no_wrap=True)
    table.add_column("nodes", overflow="fold", ratio=1 if width < 110 else None)
    for title in ("time", "share", "", *(("GFLOP/s",) if rates else ()), *(("of peak", "bound") if peaks else ())):
        table.add_column(title, justify="left" if title in {"", "bound"} else "right", no_wrap=True)
    most = max(row.share for row in times.rows) or 1.0
    bar = _BAR if width >= 110 else 6
    for row in times.rows[:_SHOWN]:
        cells: list[Text | str] = [Text(row.operator or row.kernel), Text(_members(row))]
        cells += [_ms(row.time_ms), f"{row.share:.1%}", Text(_bar(row.share / most, bar), "cyan")]
        if rates:
            cells.append(_rate(row))
        if peaks:
            cells += [_of_peak(row), row.bound]
        table.add_row(*cells)
    rest = times.rows[_SHOWN:]
    if rest:
        total = sum(row.time_ms for row in rest)
        share = sum(row.share for row in rest)
        table.add_row(f"{len(rest):,} more", "", _ms(total), f"{share:.1%}", "", *[""] * (rates + 2 * peaks))
    return table


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


def _sum_table(title: str, groups: "list[tuple[str, int, float, float]]") -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(title, "kernels", "time", "share", "", box=None, pad_edge=False)
    for column in table.columns[1:4]:
        column.justify = "right"
    most = groups[0][3] or 1.0
    for name, count, time_ms, share in groups:
        if share >= 0.001:
            table.add_row(
                Text(name), f"{count:,}", _ms(time_ms), f"{share:.1%}", Text(_bar(share / most, _BAR), "cyan")
            )
    return table


def _notes(times: "OpTimes") -> "list[str]":
    notes = []
    if times.attributed_share < 0.9995:
        notes.append(f"{1 - times.attributed_share:.1%} of the time is not attributed to nodes of the model.")
    if times.kernels_ms < _MOSTLY * times.run_ms:
        notes.append(
            "Much of a run passes between the kernels: the runtime's own work, its profiler, and whatever else "
            "runs on this device."
        )
    if not any(row.least_ms for row in times.rows):
        notes.append("What this device could reach is not known; measure it with: edgeopt probe --deep")
    return notes


def _rate(row: "OpTimeRow") -> str:
    return f"{row.operations / row.time_ms / 1e6:.1f}" if row.operations and row.time_ms else ""


def _of_peak(row: "OpTimeRow") -> str:
    return f"{row.least_ms / row.time_ms:.0%}" if row.least_ms and row.time_ms else ""


def _ms(time_ms: float) -> str:
    if time_ms < 0.1:
        return f"{time_ms * 1e3:.1f} µs"
    return f"{time_ms:.3g} ms" if time_ms < 100 else f"{time_ms:.0f} ms"


def _bar(share: float, width: int) -> str:
    """Eighths of a block, so that small differences show."""
    eighths = max(1, round(share * width * 8))
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]
