"""`edgeopt bench`: how fast, and how much faster than another."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.console import JsonFlag, execute

if TYPE_CHECKING:
    from rich.console import Console

    from edgeopt.bench.duel import Duel


def bench(
    subject: Annotated[Path, typer.Argument(metavar="MODEL|BUNDLE", help="What to measure.", show_default=False)],
    against: Annotated[Path | None, typer.Option(metavar="OTHER", help="Measure this one too, in turns.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Samples; without them a bundle's golden inputs, or generated ones.")
    ] = None,
    rounds: Annotated[int, typer.Option(help="How many rounds in turns.", min=6, max=1000)] = 15,
    json: JsonFlag = False,
) -> None:
    """Measure a model or bundle, alone or in turns with another.

    \b
    A single time means little on a busy machine; a ratio measured in turns means much, so give
    --against whenever you want to know what is faster.

    \b
    Examples:
      edgeopt bench model.edgeopt --against model.onnx --data data.npz
      edgeopt bench model.onnx --json
    """
    from edgeopt.measuring.sides import bench as measure

    execute("bench", lambda emit: measure(subject, against, data, rounds, emit), show, json)


def show(result: "Duel", console: "Console") -> None:
    """The sides, and who is faster by how much."""
    from rich.table import Table

    table = Table("", "p50 ms", "p90 ms", "p99 ms", "load ms", "peak MiB", "runs", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for side in result.sides:
        peak = side.memory.peak_bytes if side.memory else None
        table.add_row(
            side.subject,
            f"{side.p50_ms:.3f}",
            f"{side.p90_ms:.3f}",
            f"{side.p99_ms:.3f}",
            f"{side.load_ms:.0f}",
            f"{peak / 2**20:.0f}" if peak else "",
            str(side.runs),
        )
    console.print(table)
    if result.speedup is not None:
        first, second = (s.subject for s in result.sides)
        console.print(
            f"{first} against {second}: {result.speedup} (95 % interval, {result.speedup.rounds} rounds): "
            f"{result.verdict}.",
            markup=False,
        )
