"""Where the time of a run goes, and how far that is from what the device can do."""

from collections.abc import Sequence

from edgeopt.commands.documents.blocks import Block, Chart, Folded, Picture, Row, Section, Table, Words, columns
from edgeopt.commands.report import words
from edgeopt.commands.report.charts import bars, scatter
from edgeopt.commands.report.charts.axes import Scale
from edgeopt.commands.report.charts.bars import Bar, Group
from edgeopt.commands.report.charts.scatter import Axes, Dot, Path
from edgeopt.commands.report.facts import Bound, Facts
from edgeopt.graph.analysis import OpTimeRow, OpTimes

_DRAWN, _SHOWN, _ALL = 12, 15, 200
_MEMORY = "memory"


def section(facts: Facts) -> Section | None:
    times = facts.nodes
    if times is None:
        reason = facts.unknown.get("time by node", "It was not measured.")
        return Section("nodes", "Hottest nodes", (Words(f"The time of each node is unknown. {reason}", "faint"),))
    blocks: list[Block] = [Words(_sentence(times)), _chart(times)]
    blocks.append(_table(times.rows[:_SHOWN]))
    if len(times.rows) > _SHOWN:
        rest = times.rows[_SHOWN:_ALL]
        blocks.append(Folded(f"{len(times.rows) - _SHOWN:,} more kernels", (_table(rest),)))
    if roofline := _roofline(times.rows, facts.bounds):
        blocks.append(roofline)
    elif not facts.bounds:
        text = "The peaks of this device are unknown: measure them once with edgeopt probe --deep."
        blocks.append(Words(text, "faint"))
    return Section("nodes", "Hottest nodes", tuple(blocks))


def _sentence(times: OpTimes) -> str:
    whole = times.plain_ms or times.run_ms
    return (
        f"Measured when this report was made, by the profiler of {times.backend} {times.version}: "
        f"{words.milliseconds(whole)} a run, {words.milliseconds(times.kernels_ms)} in kernels while profiling "
        f"(median of {times.runs} runs). {words.share(times.attributed_share)} of the kernels' time belongs to "
        "nodes of the model."
    )


def _chart(times: OpTimes) -> Chart:
    rows = times.rows[:_DRAWN]
    groups = [
        Group(
            _name(row),
            (
                Bar(
                    row.time_ms,
                    "result",
                    f"{words.milliseconds(row.time_ms)} · {row.share:.1%}",
                    mark=row.least_ms,
                ),
            ),
        )
        for row in rows
    ]

    def draw(width: int) -> Picture:
        return bars.draw(groups, width)

    said = "; ".join(f"{_name(row)} {row.share:.0%}" for row in rows[:5])
    is_bounded = any(row.least_ms is not None for row in rows)
    bound = "The mark in each bar is the lower bound of the kernel's time by the device's measured peaks."
    caption = bound if is_bounded else ""
    return Chart("Kernels that take the longest", f"Of the time in kernels: {said}.", draw, caption)


def _table(rows: Sequence[OpTimeRow]) -> Table:
    titles = ("kernel", "nodes", ">time", ">share", ">GOP/s", ">moved", ">of the peak", "bound by")
    is_bounded = any(row.least_ms is not None for row in rows)
    shown = len(titles) if is_bounded else len(titles) - 2  # without peaks, nothing is known of these
    return Table(columns(*titles[:shown]), tuple(Row(_row(row).cells[:shown]) for row in rows))


def _row(row: OpTimeRow) -> Row:
    rate = f"{row.operations / row.time_ms / 1e6:.1f}" if row.operations and row.time_ms else words.UNKNOWN
    reached = f"{row.least_ms / row.time_ms:.0%}" if row.least_ms and row.time_ms else words.UNKNOWN
    return Row(
        (
            row.operator or row.kernel,
            words.named(row.members, 2) if row.members else "not attributed",
            words.milliseconds(row.time_ms),
            words.share(row.share),
            rate,
            words.size(row.moved_bytes),
            reached,
            row.bound or words.UNKNOWN,
        )
    )


def _name(row: OpTimeRow) -> str:
    return row.members[0] if row.members else row.kernel or row.operator


def _roofline(rows: Sequence[OpTimeRow], bounds: Sequence[Bound]) -> Chart | None:
    known = [
        (row, row.operations / row.moved_bytes, row.operations / row.time_ms * 1e3)
        for row in rows
        if row.operations and row.moved_bytes and row.time_ms
    ]
    memory = [each for each in bounds if each.bytes_per_s]
    compute = [each for each in bounds if each.operations_per_s]
    if len(known) < 2 or not memory or not compute:
        return None
    longest = max(row.share for row, _, _ in known)

    def draw(width: int) -> Picture:
        left, right, bottom, top = scatter.room(width)
        rates = [rate for _, _, rate in known] + [each.operations_per_s or 0.0 for each in compute]
        across = _logarithmic([per_byte for _, per_byte, _ in known], left, right)
        up = _logarithmic(rates, bottom, top)
        axes = Axes(across, up, "operations for each byte moved", "operations a second", _number, _rate)
        dots = [_kernel_dot(row, per_byte, rate, longest) for row, per_byte, rate in known]
        return scatter.draw(axes, dots, _roofs(memory, compute, axes), width)

    says = (
        f"{len(known)} kernels by the operations they do for each byte and the operations they do in a second, "
        "under the peaks of the device: "
        f"{', '.join(f'{each.what} {_rate(each.operations_per_s or 0)}' for each in compute)}."
    )
    caption = (
        "Larger points take longer. Sloping lines limit kernels by memory, level lines by arithmetic "
        "in their precision; kernels far below both could be faster. A kernel with its data in a "
        "nearer cache is limited by that cache's slope."
    )
    return Chart("Roofline", says, draw, caption)


def _kernel_dot(row: OpTimeRow, per_byte: float, rate: float, longest: float) -> Dot:
    says = f"{_name(row)}: {_rate(rate)}, {words.milliseconds(row.time_ms)}"
    return Dot(per_byte, rate, "other dot", says=says, radius=3 + 7 * (row.share / longest) ** 0.5)


def _logarithmic(values: Sequence[float], begin: float, end: float) -> Scale:
    return Scale(min(values) / 1.6, max(values) * 1.8, begin, end, logarithmic=True)


def _roofs(memory: Sequence[Bound], compute: Sequence[Bound], axes: Axes) -> list[Path]:
    """Level lines from where memory would be the limit; the slopes of memory and of the nearest cache."""
    top = max(each.operations_per_s or 0.0 for each in compute)
    ends = [each for each in memory if each.what == _MEMORY] + [each for each in memory if each.what != _MEMORY][
        :1
    ]
    paths = []
    for each in compute:
        rate = each.operations_per_s or 0.0
        steepest = max(m.bytes_per_s or 0.0 for m in ends)
        begin = max(axes.across.low, rate / steepest)
        if begin < axes.across.high:
            paths.append(Path(((begin, rate), (axes.across.high, rate)), "roof", each.what))
    for each in ends:
        speed = each.bytes_per_s or 1.0
        low, high = max(axes.across.low, axes.up.low / speed), min(axes.across.high, top / speed)
        if low < high:
            paths.append(Path(((low, low * speed), (high, high * speed)), "roof", each.what, slopes=True))
    return paths


def _rate(value: float) -> str:
    for unit, factor in (("TOP/s", 1e12), ("GOP/s", 1e9), ("MOP/s", 1e6)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.3g} OP/s"


def _number(value: float) -> str:
    return f"{value:g}"
