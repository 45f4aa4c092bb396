"""The results of a lab as blocks: one table of models and devices, one chart, and what needs attention."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from edgeopt import units
from edgeopt.lab.records import LabCell, LabResults
from edgeopt.views import charts, html, words
from edgeopt.views.blocks import (
    Block,
    Cell,
    Chart,
    Column,
    Listed,
    Marked,
    Mood,
    Row,
    Section,
    Table,
    WordsBlock,
    columns,
    filled,
)

_SPEED = "Speed relative to plain ONNX Runtime on the same device, with its interval."
_UNMEASURED = {
    "unchanged": "Unchanged: nothing faster was proved, and the bundle holds the model as it was.",
    "undecided": "Undecided: time was too short or the device too busy; the bundle holds the model as it was. "
    "To search again, raise time_limit_s, or run with --fresh.",
}
"""Meaning of what is shown instead of a speed that was not measured."""
_MOODS: dict[str, Mood] = {"failed": "bad", "running": "accent", "waiting": "faint"}


def cell_text(cell: LabCell) -> str:
    """`1.52x [1.48 1.57]`, `unchanged`, or the state of a cell without a result."""
    if cell.status == "running":
        return cell.phase.partition(":")[0] or "running"  # without the candidate, which would widen the table
    if cell.status != "done":
        return cell.status
    if cell.speedup is None:
        return cell.verdict
    if not _is_measured(cell):
        return "undecided" if cell.verdict == "undecided" else "unchanged"
    return units.speedup_text(cell.speedup.median, cell.speedup.low, cell.speedup.high)


def _is_measured(cell: LabCell) -> bool:
    """Whether the speed-up is a measurement: that of a bundle with the unchanged model is 1 without one."""
    return cell.speedup is not None and cell.speedup.rounds > 0


def cell_mood(cell: LabCell) -> Mood:
    return "bad" if cell.race is not None and cell.race.state == "broken" else _MOODS.get(cell.status, "")


def summary(results: LabResults) -> str:
    """`32 of 32 cells complete; 29 compared with before, none slower by more than 3%; 1 not compared.`"""
    done = [each for each in results.cells if each.status == "done"]
    kept = sum(each.kept for each in done)
    parts = [
        f"{len(done)} of {units.count(len(results.cells), 'cell')} complete"
        + (f" ({kept} from an earlier run)" if kept else "")
    ]
    if failed := [each for each in results.cells if each.status == "failed"]:
        parts.append(f"{len(failed)} failed")
    if waiting := len(results.failed) - len(failed):
        parts.append(f"{waiting} not run")
    if undecided := sum(each.verdict == "undecided" for each in done):
        parts.append(f"{undecided} undecided")
    if results.against and results.compared:
        parts.append(_compared(results))
    if missing := len(results.not_compared) + len(results.without_race):
        parts.append(f"{missing} not compared")
    return f"{'; '.join(parts)}."


def _compared(results: LabResults) -> str:
    """Returns the claim about the cells that were judged, as a part of a sentence."""
    slower = len(results.slower)
    undecided = sum(each.race is not None and each.race.state == "undecided" for each in results.compared)
    text = f"{len(results.compared)} compared with before, {slower or 'none'} slower by more than"
    return f"{text} {results.max_slowdown}{f', {undecided} undecided' if undecided else ''}"


def show(results: LabResults) -> list[Block]:
    """The table, and below it what failed or became slower."""
    return [_matrix(results), WordsBlock(summary(results), "strong"), *_attention(results)]


def sections(results: LabResults) -> tuple[Section, ...]:
    """The sections of a report."""
    matrix: list[Block] = [_matrix(results), *([_chart(results)] if _drawn(results) else [])]
    attention = _attention(results)
    found = [Section("speed", "Speed-up of each model on each device", tuple(matrix))]
    if attention:
        found.append(Section("attention", "Needs attention", tuple(attention)))
    return (*found, Section("cells", "All cells", (_details(results),)))


def page(results: LabResults) -> str:
    """Returns the report as HTML."""
    bad = bool(results.failed or results.slower or results.not_compared)
    verdict = Section("", "Incomplete or slower" if bad else "Complete", (WordsBlock(summary(results)),))
    ends = [each.end_s for each in results.cells if each.end_s]
    at = datetime.fromtimestamp(max(ends), UTC).isoformat(timespec="seconds") if ends else ""
    last = f"Last search: {words.moment(at)}." if at else ""
    heading = f"Lab: {results.lab}"
    return html.page(html.Page(heading, heading, verdict, "bad" if bad else "good", sections(results), last))


def _matrix(results: LabResults) -> Table:
    cells = {(each.model, each.device): each for each in results.cells}

    def shown(model: str, device: str) -> Cell:
        cell = cells[model, device]
        return Marked(cell_text(cell), cell_mood(cell))

    rows = (Row((model, *(shown(model, device) for device in results.devices))) for model in results.models)
    # As figures, whose columns never shrink: a narrow terminal splits the table by devices.
    titles = (Column("model", "name"), *(Column(device, "figure") for device in results.devices))
    words_used = {cell_text(each) for each in results.cells if each.status == "done"}
    notes = [text for word, text in _UNMEASURED.items() if word in words_used]
    return Table(titles, tuple(rows), " ".join((_SPEED, *notes)))


def _attention(results: LabResults) -> list[Block]:
    slower = [f"{each.name}: {each.race.sentence}" for each in results.slower if each.race is not None]
    missing = [f"{each.name}: not compared: {each.race.sentence}" for each in results.not_compared if each.race]
    missing += [f"{each.name}: not compared: nothing to measure it against." for each in results.without_race]
    devices: dict[tuple[str, str], list[str]] = {}
    for each in results.cells:
        if each.reason:
            devices.setdefault((each.model, f"{each.reason} {each.hint}".strip()), []).append(each.device)
    failed = [f"{model} on {', '.join(names)}: {text}" for (model, text), names in devices.items()]
    undecided = [f"{each.name}: {each.summary}" for each in results.cells if each.verdict == "undecided"]
    return [Listed(tuple(each)) for each in (slower, missing, failed, undecided) if each]


def _drawn(results: LabResults) -> list[LabCell]:
    return [each for each in results.cells if each.status == "done" and _is_measured(each)]


def _chart(results: LabResults) -> Chart:
    drawn = _drawn(results)
    groups = [
        charts.Group(model, tuple(bars))
        for model in results.models
        if (bars := [_bar(each) for each in drawn if each.model == model])
    ]
    says = "; ".join(f"{each.name} {cell_text(each)}" for each in drawn)
    caption = "One bar for each device, in the order of the table. The mark is the speed of the baseline."
    return Chart("Speed-up by model and device", f"{says}.", partial(charts.draw_bars, groups), caption)


def _bar(cell: LabCell) -> charts.Bar:
    assert cell.speedup is not None  # noqa: S101 - `_drawn` has chosen
    found = cell.speedup
    text = f"{words.ratio(found.median)} {cell.device}"
    return charts.Bar(found.median, "result", text, found.low, found.high, mark=1.0)


def _details(results: LabResults) -> Table:
    titles = columns(
        *("=model", "=device", ">speed-up", ">latency", ">baseline latency", ">accuracy", ">peak memory"),
        *("=winner", "against earlier"),
    )
    return filled(Table(titles, tuple(map(_detail, _by_model(results)))))


def _by_model(results: LabResults) -> Sequence[LabCell]:
    return sorted(results.cells, key=lambda each: results.models.index(each.model))


def _detail(cell: LabCell) -> Row:
    race = "" if cell.race is None else cell.race.sentence
    return Row(
        (
            *(cell.model, cell.device, Marked(cell_text(cell), cell_mood(cell))),
            *(words.milliseconds(cell.latency_ms), words.milliseconds(cell.baseline_ms)),
            *(words.decibels(cell.accuracy_db), words.size(cell.peak_bytes), cell.winner, race),
        )
    )
