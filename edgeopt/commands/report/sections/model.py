"""Sections about the model: operators before and after, the hottest nodes, and what the passes did."""

from collections import Counter
from collections.abc import Sequence
from functools import partial

from edgeopt import units
from edgeopt.commands.report.facts import Bound, LayerChoice, OperatorCount, ReportFacts, SearchWork
from edgeopt.graph.analysis import OpTimeRow, OpTimes
from edgeopt.graph.ledger import LedgerEntry
from edgeopt.views import charts, words
from edgeopt.views.blocks import (
    Block,
    Chart,
    Folded,
    Mood,
    Picture,
    Row,
    Section,
    Table,
    WordsBlock,
    columns,
    rows,
    some,
)
from edgeopt.views.charts import Axes, Bar, ChartDot, ChartScale, Group, Path

_MAX_OPERATORS = 400
"""A model can hold operators of any name; a report need not list them all."""


def operators_section(facts: ReportFacts) -> Section | None:
    blocks: list[Block] = []
    if facts.work_after is not None:
        blocks.append(_work(facts.work_before, facts.work_after))
    reason = facts.unknown.get("operators after") or facts.unknown.get("operators before")
    blocks += _counts(facts.operators)
    if reason:
        blocks.append(WordsBlock(reason, "faint"))
    return Section("operators", "Operators, before and after", tuple(blocks)) if blocks else None


def _work(before: SearchWork | None, after: SearchWork) -> Table:
    def row(title: str, first: int | None, second: int | None, as_bytes: bool = False) -> Row:
        shown = [
            words.size(v) if as_bytes else (f"{v:,}" if v is not None else words.UNKNOWN) for v in (first, second)
        ]
        return Row((title, *shown, words.change(first, second)))

    rows = (
        row("nodes", before.nodes if before else None, after.nodes),
        row("parameters", before.parameters if before else None, after.parameters),
        row("multiply-adds in one run", before.multiply_adds if before else None, after.multiply_adds),
        row("bytes that one run moves", before.moved_bytes if before else None, after.moved_bytes, as_bytes=True),
        row("size of the files", before.size_bytes if before else None, after.size_bytes, as_bytes=True),
    )
    if before is None:
        narrow = tuple(Row((each.cells[0], each.cells[2])) for each in rows)
        return Table(columns("the delivered model", ">"), narrow)
    return Table(columns("", ">source", ">result", ">change"), rows)


def _counts(counts: tuple[OperatorCount, ...]) -> list[Block]:
    """Tabulates the operators whose count changed; the unchanged ones are folded."""
    if not counts:
        return []
    if any(each.before is None or each.after is None for each in counts):
        rows = tuple(
            Row((each.operator, _count(each.before), _count(each.after))) for each in counts[:_MAX_OPERATORS]
        )
        return [Table(columns("operator", ">source", ">result"), rows, "How often each operator occurs.")]
    moved = [each for each in counts if each.before != each.after]
    same = [each for each in counts if each.before == each.after]
    total = OperatorCount("all", sum(each.before or 0 for each in counts), sum(each.after or 0 for each in counts))
    titles = columns("operator", ">source", ">result", ">change")
    blocks: list[Block] = []
    if moved:
        rows = tuple(_compared(each) for each in moved[:_MAX_OPERATORS])
        caption = "How often each operator occurs that occurs more or less often than before, and all together."
        blocks.append(Table(titles, (*rows, _compared(total, "strong")), caption))
    else:
        blocks.append(
            WordsBlock(f"Every operator occurs as often as in the source: {total.after:,} nodes in all.")
        )
    if same:
        several = words.several(len(same), "operator that occurs", "operators that occur")
        blocks.append(
            Folded(f"{several} as often as before", (Table(titles, tuple(map(_compared, same[:_MAX_OPERATORS]))),))
        )
    return blocks


def _compared(each: OperatorCount, mood: Mood = "") -> Row:
    moved = (each.after or 0) - (each.before or 0)
    return Row(
        (each.operator, _count(each.before), _count(each.after), f"{moved:+,}" if moved else "the same"), mood
    )


def _count(value: int | None) -> str:
    return words.UNKNOWN if value is None else f"{value:,}"


_DRAWN, _SHOWN, _MAX_KERNELS = 12, 15, 200


def nodes_section(facts: ReportFacts) -> Section | None:
    times = facts.nodes
    if times is None:
        reason = facts.unknown.get("time by node", "It was not measured.")
        return Section(
            "nodes", "Hottest nodes", (WordsBlock(f"The time of each node is unknown. {reason}", "faint"),)
        )
    blocks: list[Block] = [WordsBlock(_nodes_sentence(times)), _kernels_chart(times)]
    blocks.append(_kernels_table(times.rows[:_SHOWN]))
    if len(times.rows) > _SHOWN:
        rest = times.rows[_SHOWN:_MAX_KERNELS]
        blocks.append(Folded(f"{len(times.rows) - _SHOWN:,} more kernels", (_kernels_table(rest),)))
    if roofline := _roofline(times.rows, facts.bounds):
        blocks.append(roofline)
    elif not facts.bounds:
        text = "The peaks of this device are unknown: measure them once with edgeopt probe --deep."
        blocks.append(WordsBlock(text, "faint"))
    return Section("nodes", "Hottest nodes", tuple(blocks))


def _nodes_sentence(times: OpTimes) -> str:
    whole = times.plain_ms or times.run_ms
    return (
        f"Measured when this report was made, by the profiler of {times.backend} {times.version}: "
        f"{words.milliseconds(whole)} a run, {words.milliseconds(times.kernels_ms)} in kernels while profiling "
        f"(median of {times.runs} runs). {words.share(times.attributed_share)} of the kernels' time belongs to "
        "nodes of the model."
    )


def _kernels_chart(times: OpTimes) -> Chart:
    rows = times.rows[:_DRAWN]
    labels = [f"{words.milliseconds(row.time_ms)} · {units.percent(row.share)}" for row in rows]
    groups = [
        Group(_name(row), (Bar(row.time_ms, "result", label, mark=row.least_ms),))
        for row, label in zip(rows, labels, strict=True)
    ]
    draw = partial(charts.draw_bars, groups)
    summary = "; ".join(f"{_name(row)} {units.percent(row.share, 0)}" for row in rows[:5])
    bound = "The mark in each bar is the lower bound of the kernel's time by the device's measured peaks."
    caption = bound if any(row.least_ms is not None for row in rows) else ""
    return Chart("Kernels that take the longest", f"Of the time in kernels: {summary}.", draw, caption)


def _kernels_table(rows: Sequence[OpTimeRow]) -> Table:
    titles = ("kernel", "nodes", ">time", ">share", ">GOP/s", ">moved", ">of the peak", "bound by")
    is_bounded = any(row.least_ms is not None for row in rows)
    shown = len(titles) if is_bounded else len(titles) - 2  # without peaks, nothing is known of these
    return Table(columns(*titles[:shown]), tuple(Row(_kernel_cells(row)[:shown]) for row in rows))


def _kernel_cells(row: OpTimeRow) -> tuple[str, ...]:
    rate = f"{row.operations / row.time_ms / 1e6:.1f}" if row.operations and row.time_ms else words.UNKNOWN
    reached = units.percent(row.least_ms / row.time_ms, 0) if row.least_ms and row.time_ms else words.UNKNOWN
    members = some(row.members, 2) or "not attributed"
    times = (words.milliseconds(row.time_ms), words.share(row.share))
    moved, bound = words.size(row.moved_bytes), row.bound or words.UNKNOWN
    return (row.operator or row.kernel, members, *times, rate, moved, reached, bound)


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
        left, right, bottom, top = charts.plot_area(width)
        rates = [rate for _, _, rate in known] + [each.operations_per_s or 0.0 for each in compute]
        across = _logarithmic([per_byte for _, per_byte, _ in known], left, right)
        up = _logarithmic(rates, bottom, top)
        axes = Axes(across, up, "operations for each byte moved", "operations a second", "{:g}".format, _rate)
        dots = []
        for row, per_byte, rate in known:
            label = f"{_name(row)}: {_rate(rate)}, {words.milliseconds(row.time_ms)}"
            radius = 3 + 7 * (row.share / longest) ** 0.5
            dots.append(ChartDot(per_byte, rate, "other dot", says=label, radius=radius))
        return charts.draw_points(axes, dots, _roofs(memory, compute, axes), width)

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


def _logarithmic(values: Sequence[float], begin: float, end: float) -> ChartScale:
    return ChartScale(min(values) / 1.6, max(values) * 1.8, begin, end, logarithmic=True)


def _roofs(memory: Sequence[Bound], compute: Sequence[Bound], axes: Axes) -> list[Path]:
    """Returns level lines from where memory would be the limit, and the slopes of memory and the nearest cache."""
    top = max(each.operations_per_s or 0.0 for each in compute)
    caches = [each for each in memory if each.what != "memory"]
    ends = [*(each for each in memory if each.what == "memory"), *caches[:1]]
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


_FEW = 6
"""Up to this number of changes get a line each in the summary; more are counted."""
_MAX_CHANGES = 1000


def ledger_section(facts: ReportFacts) -> Section | None:
    blocks: list[Block] = []
    if facts.ledger:
        blocks += _passes(facts.ledger)
    elif "ledger" in facts.unknown:
        blocks.append(WordsBlock(facts.unknown["ledger"], "faint"))
    else:
        blocks.append(WordsBlock("The model is delivered unchanged."))
    if facts.layers:
        blocks += _layers(facts.layers)
    return Section("ledger", "Ledger", tuple(blocks))


def _passes(ledger: tuple[LedgerEntry, ...]) -> list[Block]:
    did = [each for each in ledger if each.applied or each.rolled_back]
    refused = [each for each in ledger if each.refused and not (each.applied or each.rolled_back)]
    idle = [each for each in ledger if not (each.applied or each.refused or each.rolled_back)]
    blocks: list[Block] = []
    if did:
        titles = ("pass", "what it did", ">nodes before", ">after", "against the source")
        blocks.append(
            Table(columns(*titles), tuple(_pass_row(each) for each in did), "Passes that changed the graph.")
        )
    if refused:
        rows = tuple(Row((each.pass_name, _refusals(each))) for each in refused)
        blocks.append(
            Table(columns("pass", "why it did not apply"), rows, "Passes that found a match but did not apply.")
        )
    if idle:
        named = ", ".join(each.pass_name for each in idle)
        blocks.append(WordsBlock(f"{words.several(len(idle), 'pass', 'passes')} found no match: {named}."))
    blocks += [_folded(each) for each in ledger if len(each.applied) > _FEW or len(each.refused) > _FEW]
    return blocks


def _pass_row(each: LedgerEntry) -> Row:
    what = _listed([(c.what, c.nodes) for c in each.applied], "change")
    if each.rolled_back:
        what = f"Undone: {each.rolled_back}"
    elif each.refused:
        what += f" Refused: {_refusals(each)}"
    counted = each.nodes_before or each.nodes_after
    nodes = (f"{each.nodes_before:,}", f"{each.nodes_after:,}") if counted else (words.UNKNOWN, words.UNKNOWN)
    return Row((each.pass_name, what, *nodes, _error(each) if counted else words.UNKNOWN))


def _refusals(each: LedgerEntry) -> str:
    return _listed([(r.reason, r.nodes) for r in each.refused], "place")


def _listed(sentences: Sequence[tuple[str, Sequence[str]]], what: str) -> str:
    if len(sentences) > _FEW:
        return f"{words.several(len(sentences), what)}, listed below."
    return " ".join(
        f"{_sentence(one)} ({some(nodes, 3)})." if nodes else f"{_sentence(one)}." for one, nodes in sentences
    )


def _sentence(text: str) -> str:
    return (text[:1].upper() + text[1:]).rstrip(".")


def _error(each: LedgerEntry) -> str:
    if each.snr_db is not None:
        return words.decibels(each.snr_db)
    return "exact by its kind" if each.tolerance_db is None else f"promises {each.tolerance_db:g} dB"


def _folded(each: LedgerEntry) -> Folded:
    rows = [Row((some(c.nodes, 3) or words.UNKNOWN, "done", c.what)) for c in each.applied]
    rows += [Row((some(r.nodes, 3) or words.UNKNOWN, "left", r.reason), "faint") for r in each.refused]
    title = f"{each.pass_name}: all {len(each.applied):,} changes and {len(each.refused):,} refusals"
    return Folded(title, (Table(columns("nodes", "", "what and why"), tuple(rows[:_MAX_CHANGES])),))


def _layers(layers: tuple[LayerChoice, ...]) -> list[Block]:
    counts = Counter(each.form for each in layers).most_common()
    counted = ", ".join(f"{count:,} in {scheme}" for scheme, count in counts)
    shown = rows(*((each.layer, each.form, each.reason) for each in layers[:_MAX_CHANGES]))
    return [
        WordsBlock(f"{words.several(len(layers), 'layer')}: {counted}."),
        Folded("The scheme of each layer, and why", (Table(columns("layer", "form", "why"), shown),)),
    ]
