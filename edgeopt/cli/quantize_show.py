"""What became of a model's precision, on the terminal: the verdict first, then why."""

from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.cli.quantize_words import about, forms
from edgeopt.commands.documents.blocks import (
    Block,
    Drawing,
    Listed,
    Row,
    Table,
    Words,
    columns,
    filled,
    lines,
    rows,
    section,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from edgeopt.data.judging.goals import Goal
    from edgeopt.quant.measured.records import CalibrationTried, Quantized, TargetSaid
    from edgeopt.quant.records import Plan, Point, Verdict

SHOWN_LAYERS = 12
SHOWN_FINDINGS = 6
_CHART = 76
_CHOSEN = "▶"


def show(found: "Quantized", every: bool = False, said: "Collection[str]" = ()) -> list[Block]:
    """`every`: all layers and findings, not what fits on a screen; `said`: warnings that were told on the way."""
    warnings = (f"warning: {each}" for each in found.warnings if each not in said)
    parts: list[Block | None] = [Words(found.summary, "strong"), *lines(about(found))]
    if found.plan is not None:
        from edgeopt.data.judging.goals import NO_FLOOR

        parts += [_frontier(found.plan, found.goal or NO_FLOOR), _layers(found, found.plan, every)]
    parts += [_calibrations(found.calibrations), _targets(found.targets), _findings(found, every)]
    parts += lines(warnings, "warning")
    if found.files:
        parts.append(section("", Words(f"Written: {', '.join(file.path for file in found.files)}", "strong")))
    return [part for part in parts if part is not None]


def _frontier(plan: "Plan", goal: "Goal") -> Block | None:
    points = plan.frontier
    if len(points) < 2:
        return None
    from edgeopt.graph.accuracy import EQUAL_DB

    full = max(point.expected_ms for point in points)
    rows = []
    for point in points:
        chosen = point.choices == plan.chosen.choices
        cells = (
            _CHOSEN if chosen else "",
            f"{point.expected_ms:.3g} ms",
            f"{full / point.expected_ms:.2f}x" if point.expected_ms > 0 else "",
            _accuracy(point, goal),
            "" if point.low_db is None or point.low_db >= EQUAL_DB else goal.shown_score(point.low_db),
            "" if point.speedup is None else f"{point.speedup:.2f}x",
            forms(point) or "all float",
        )
        rows.append(Row(cells, "strong" if chosen else ""))
    titles = columns("!", ">time", ">speed-up", ">accuracy", ">on others", ">measured", "layers")
    caption = "Times are the float model's less what the layers save; ~ adds up the layers' own errors."
    drawing = Drawing(lambda width, plain: chart(plan, goal, width, plain))
    return section("Frontier: gain for more error", filled(Table(titles, tuple(rows), caption)), drawing)


def _accuracy(point: "Point", goal: "Goal") -> str:
    """The checked value in the goal's metric; otherwise the sum of the layers' errors, in dB."""
    from edgeopt.graph.accuracy import decibels

    if not point.choices:
        return decibels(point.expected_db)
    return f"~{decibels(point.expected_db)}" if point.snr_db is None else goal.shown_score(point.snr_db)


def chart(plan: "Plan", goal: "Goal", width: int, ascii: bool = False) -> list[str]:  # noqa: A002
    """Checked decibels where there are such, else expected ones."""
    from edgeopt.measure.charts import Dot, frontier

    dots = [
        Dot(
            p.expected_ms,
            p.expected_db if p.snr_db is None or not goal.is_ratio else p.snr_db,
            p.choices == plan.chosen.choices,
        )
        for p in plan.frontier
    ]
    return frontier(dots, plan.floor_db or None, min(width, _CHART), ascii=ascii)


def _layers(found: "Quantized", plan: "Plan", every: bool) -> Block | None:
    ordered = worst_first(plan.verdicts)
    title = "Layers, the most costly first"
    if found.method != "plan":
        # That the others have the form that was asked for goes without saying.
        ordered, title = [each for each in ordered if each.form == "float"], "Layers that stay float"
    if not ordered:
        return None
    shown = ordered if every else ordered[:SHOWN_LAYERS]
    left = len(ordered) - len(shown)
    rows = tuple(
        Row((_shortened(each.layer), each.reason), "faint" if each.form == "float" else "") for each in shown
    )
    more = f"and {units.count(left, 'more layer')} (--all)" if left else ""
    return section(title, Table(columns("=layer", "why"), rows, more))


def worst_first(verdicts: "Sequence[Verdict]") -> "list[Verdict]":
    """Layers without a known error come last."""
    return sorted(verdicts, key=lambda each: float("inf") if each.snr_db is None else each.snr_db)


def _shortened(name: str) -> str:
    """The end of a name tells layers apart; exporters begin all alike."""
    return name if len(name) <= 48 else f"…{name[-47:]}"


def _calibrations(tried: "Sequence[CalibrationTried]") -> Block | None:
    from edgeopt.graph.accuracy import decibels

    if not tried:
        return None
    found = rows(
        *(
            (
                row.method,
                "" if row.snr_db is None else decibels(row.snr_db),
                "" if row.low_db is None else decibels(row.low_db),
                f"{row.cut_off_share:.2%}" if row.cut_off_share else "",
                "" if row.seconds is None else f"{row.seconds:.1f} s",
                row.note,
            )
            for row in sorted(tried, key=lambda each: -(each.snr_db if each.snr_db is not None else float("-inf")))
        )
    )
    titles = columns("=method", ">accuracy", ">on others", ">cut off", ">took", "the range")
    return section("Calibration methods, the most exact first", Table(titles, found))


def _targets(said: "Sequence[TargetSaid]") -> Block | None:
    if not said:
        return None
    found = rows(*((row.target, row.verdict, f"{row.reason} {row.remedy}".strip()) for row in said))
    return section("On other targets", Table(columns("=target", "verdict", "reason and remedy"), found))


def _findings(found: "Quantized", every: bool) -> Block | None:
    told = [each.sentence for each in found.findings]
    if not told:
        return None
    shown = told if every else told[:SHOWN_FINDINGS]
    left = len(told) - len(shown)
    more = Words(f"and {left} more (--all)", "faint") if left else None
    return section("Findings about data and model", Listed(tuple(shown)), more)
