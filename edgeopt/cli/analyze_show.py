"""An analysis on the terminal."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeopt.cli import analyze_sections as sections
from edgeopt.cli.analyze_sections import Section

if TYPE_CHECKING:
    from rich.console import Console

    from edgeopt.graph.analysis import Analysis, Opportunity

_BAR = 20
_NARROW = 100
"""Below so many columns, bars and what is least needed make room."""
_SHOWN_NODES = 2


def show(
    analysis: "Analysis", console: "Console", nodes: bool = False, weights: bool = False, looked: bool = True
) -> None:
    """What it is and costs first, then where that goes, what could be done, and what would run it."""
    for section in _sections(analysis, nodes, weights, looked):
        if isinstance(section, Section):
            _print(section, console)
        else:
            _opportunities(section, console)
    for times in analysis.op_times:
        from edgeopt.cli.op_times_show import show_op_times

        show_op_times(times, console)
    for warning in analysis.warnings:
        console.print(f"\nnote: {warning}", markup=False)


def _sections(
    analysis: "Analysis", nodes: bool, weights: bool, looked: bool
) -> "Iterator[Section | tuple[Opportunity, ...]]":
    yield sections.summary(analysis)
    found = (sections.work(analysis), sections.ports(analysis), sections.dimensions(analysis))
    yield from (section for section in found if section is not None)
    more = (sections.by_category(analysis), sections.top_nodes(analysis), sections.operators(analysis))
    yield from (section for section in more if section is not None)
    listed = sections.weights(analysis, weights)
    if listed is not None:
        yield listed
    if nodes:
        yield sections.nodes(analysis)
    if looked:
        yield analysis.opportunities
    covered = sections.coverage(analysis)
    if covered is not None:
        yield covered


def _print(section: Section, console: "Console") -> None:
    from rich.table import Table
    from rich.text import Text

    if section.title:
        console.print(f"\n{section.title}", style="bold", markup=False)
    named = any(section.columns)
    table = Table(box=None, show_header=named, pad_edge=False, header_style="dim")
    bars = section.bars if console.width >= _NARROW else None
    for place, name in enumerate(section.columns):
        if place == bars:
            table.add_column(name, no_wrap=True)
        right = place in section.right
        if place == section.bars and bars is not None:
            table.add_column("", justify="right", no_wrap=True)
            continue
        table.add_column(
            name,
            justify="right" if right else "left",
            no_wrap=right or (not named and place == 0),
            overflow="fold",
            ratio=None,
            style="bold" if not named and place == 0 else "",
        )
    most = max((_share(row[bars]) for row in section.rows), default=0.0) if bars is not None else 0.0
    for row in section.rows:
        cells: list[Text] = []
        for place, cell in enumerate(row):
            if place == bars:
                cells.append(Text(_bar(_share(cell) / most if most else 0.0), "cyan"))
            cells.append(Text(cell))
        table.add_row(*cells)
    console.print(table)
    if section.note:
        console.print(section.note, style="dim", markup=False)


def _opportunities(found: "tuple[Opportunity, ...]", console: "Console") -> None:
    """By the command that would use them, the command with the largest gain first."""
    from rich.table import Table
    from rich.text import Text

    console.print("\nWhat could be done", style="bold")
    if not found:
        console.print("Nothing was found.")
        return
    # What most estimates stand on is told once.
    tails = Counter(each.basis.rpartition("; ")[2] for each in found if each.gain_share is not None)
    tail = max(tails, key=lambda key: tails[key], default="")
    if tail:
        console.print(f"Shares of one run, estimated from {tail}.", style="dim", markup=False)
    width = max(len(gain(each)) for each in found)
    for command in dict.fromkeys(each.command for each in found):
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(justify="right", no_wrap=True, min_width=width)
        table.add_column(overflow="fold")
        for each in (each for each in found if each.command == command):
            lines = Text()
            lines.append(each.title, "bold")
            lines.append(f" · {each.kind}{'' if each.exact else ' · changes the results'}", "dim")
            lines.append(f"\n{each.reason}{_named(each.nodes)}")
            basis = each.basis.removesuffix(tail).removesuffix("; ") if tail else each.basis
            lines.append(f"\n{basis}" if basis else "", "dim")
            table.add_row(Text(gain(each)), lines)
        console.print(table)
        # Never broken into lines, so that it can be copied.
        console.print(Text(f"{'→':>{width}} {command}\n", "cyan"), soft_wrap=True)


def gain(opportunity: "Opportunity") -> str:
    """`≤ 12%` of a run; empty where there is no estimate."""
    share = opportunity.gain_share
    if share is None:
        return "-"
    return f"≤ {share:.0%}" if share >= 0.01 else "< 1%"


def _named(nodes: tuple[str, ...]) -> str:
    if not nodes:
        return ""
    more = f" and {len(nodes) - _SHOWN_NODES:,} more" if len(nodes) > _SHOWN_NODES else ""
    return f" ({', '.join(nodes[:_SHOWN_NODES])}{more})"


def _share(cell: str) -> float:
    return float(cell.rstrip("%")) / 100


def _bar(share: float) -> str:
    """Eighths of a block, so that small differences show."""
    eighths = max(1, round(share * _BAR * 8)) if share > 0 else 0
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]
