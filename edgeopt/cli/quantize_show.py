"""What became of a model's precision, on the terminal: the verdict first, then why."""

from typing import TYPE_CHECKING

from edgeopt.cli.quantize_words import about, count, forms

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.console import Console

    from edgeopt.judging.goals import Goal
    from edgeopt.quant.records import Plan, Point, Verdict
    from edgeopt.quantizing.records import CalibrationTried, Quantized, TargetSaid

SHOWN_LAYERS = 12
SHOWN_FINDINGS = 6
_CHART = 76


def show(found: "Quantized", console: "Console", every: bool = False, said: "Collection[str]" = ()) -> None:
    """`every`: all layers and findings, not what fits on a screen; `said`: warnings that were told on the way."""
    console.print(found.summary, style="bold", markup=False)
    for line in about(found):
        console.print(line, markup=False)
    if found.plan is not None:
        _frontier(found.plan, found.goal, console)
        _layers(found, found.plan, console, every)
    _calibrations(found.calibrations, console)
    _targets(found.targets, console)
    _list("What the data and the model showed", [f.sentence for f in found.findings], console, every)
    for warning in (each for each in found.warnings if each not in said):
        console.print(f"warning: {warning}", style="yellow", markup=False)
    if found.files:
        console.print(f"\nWritten: {', '.join(file.path for file in found.files)}", style="bold", markup=False)


def _frontier(plan: "Plan", goal: "Goal", console: "Console") -> None:
    from rich.table import Table
    from rich.text import Text

    points = plan.frontier
    if len(points) < 2:
        return
    from edgeopt.graph.accuracy import EQUAL_DB

    console.print("\nThe frontier: what more error buys", style="bold")
    measured = any(point.speedup is not None for point in points)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("", "time", "speed-up", "accuracy", "on others", *(("measured",) if measured else ()), "layers"):
        table.add_column(name, justify="left" if name in {"", "layers"} else "right", no_wrap=name != "layers")
    mark = "▶" if _speaks_unicode(console) else ">"
    full = max(point.expected_ms for point in points)
    for point in points:
        chosen = point.choices == plan.chosen.choices
        row = (
            mark if chosen else "",
            f"{point.expected_ms:.3g} ms",
            f"{full / point.expected_ms:.2f}x" if point.expected_ms > 0 else "",
            _accuracy(point, goal),
            "" if point.low_db is None or point.low_db >= EQUAL_DB else goal.shown_score(point.low_db),
            *((("" if point.speedup is None else f"{point.speedup:.2f}x"),) if measured else ()),
            forms(point) or "all float",
        )
        table.add_row(*(Text(cell, "bold" if chosen else "") for cell in row))
    console.print(table)
    console.print(
        "Times are the float model's less what the layers save; ~ adds up the layers' own errors.", style="dim"
    )
    for line in chart(plan, goal, console.width, not _speaks_unicode(console)):
        console.print(line, markup=False, style="dim")


def _accuracy(point: "Point", goal: "Goal") -> str:
    """Checked, in the words of the goal's metric; else what the layers' own errors add up to, in dB."""
    from edgeopt.graph.accuracy import decibels

    if not point.choices:
        return decibels(point.expected_db)
    return f"~{decibels(point.expected_db)}" if point.snr_db is None else goal.shown_score(point.snr_db)


def chart(plan: "Plan", goal: "Goal", width: int, ascii: bool = False) -> list[str]:  # noqa: A002
    """Checked decibels where there are such, else expected ones."""
    from edgeopt.bench.drawing.frontier import Dot, frontier

    dots = [
        Dot(
            p.expected_ms,
            p.expected_db if p.snr_db is None or not goal.is_ratio else p.snr_db,
            p.choices == plan.chosen.choices,
        )
        for p in plan.frontier
    ]
    return frontier(dots, plan.floor_db or None, min(width, _CHART), ascii=ascii)


def _speaks_unicode(console: "Console") -> bool:
    return (console.encoding or "").lower().startswith("utf")


def _layers(found: "Quantized", plan: "Plan", console: "Console", every: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    ordered = worst_first(plan.verdicts)
    title = "The layers, those that cost most first"
    if found.method != "plan":
        # That the others have the form that was asked for goes without saying.
        ordered, title = [each for each in ordered if each.form == "float"], "Layers that stay float"
    if not ordered:
        return
    console.print(f"\n{title}", style="bold")
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("layer", overflow="ellipsis", no_wrap=True, max_width=48)
    table.add_column("why", overflow="fold")
    shown = ordered if every else ordered[:SHOWN_LAYERS]
    for verdict in shown:
        style = "dim" if verdict.form == "float" else ""
        table.add_row(Text(_shortened(verdict.layer), style), Text(verdict.reason, style))
    console.print(table)
    if len(shown) < len(ordered):
        console.print(f"and {count(len(ordered) - len(shown), 'more layer')} (--all)", style="dim", markup=False)


def worst_first(verdicts: "Sequence[Verdict]") -> "list[Verdict]":
    """Those of which no error is known come last."""
    return sorted(verdicts, key=lambda each: float("inf") if each.snr_db is None else each.snr_db)


def _shortened(name: str) -> str:
    """The end of a name tells layers apart; exporters begin all alike."""
    return name if len(name) <= 48 else f"…{name[-47:]}"


def _calibrations(tried: "Sequence[CalibrationTried]", console: "Console") -> None:
    from rich.table import Table
    from rich.text import Text

    from edgeopt.graph.accuracy import decibels

    if not tried:
        return
    console.print("\nMethods of calibration, the most exact first", style="bold")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("method", "accuracy", "on others", "cut off", "took", "the range"):
        right = name not in {"method", "the range"}
        table.add_column(name, justify="right" if right else "left", no_wrap=right)
    for row in sorted(tried, key=lambda each: -(each.snr_db if each.snr_db is not None else float("-inf"))):
        cells = (
            row.method,
            "" if row.snr_db is None else decibels(row.snr_db),
            "" if row.low_db is None else decibels(row.low_db),
            f"{row.cut_off_share:.2%}" if row.cut_off_share else "",
            "" if row.seconds is None else f"{row.seconds:.1f} s",
            row.note,
        )
        table.add_row(*map(Text, cells))
    console.print(table)


def _targets(said: "Sequence[TargetSaid]", console: "Console") -> None:
    from rich.table import Table
    from rich.text import Text

    if not said:
        return
    console.print("\nOn other targets", style="bold")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("target", "verdict", "why, and what helps"):
        table.add_column(name, no_wrap=name == "target", overflow="fold")
    for row in said:
        why = f"{row.reason} {row.remedy}".strip()
        table.add_row(*map(Text, (row.target, row.verdict, why)))
    console.print(table)


def _list(title: str, lines: "Sequence[str]", console: "Console", every: bool) -> None:
    if not lines:
        return
    console.print(f"\n{title}", style="bold", markup=False)
    shown = lines if every else lines[:SHOWN_FINDINGS]
    for line in shown:
        console.print(f"  {line}", markup=False)
    if len(shown) < len(lines):
        console.print(f"  and {len(lines) - len(shown)} more (--all)", style="dim", markup=False)
