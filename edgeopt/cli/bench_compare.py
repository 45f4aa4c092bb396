"""`edgeopt bench compare`: two saved runs against each other."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.console import JsonFlag, execute

if TYPE_CHECKING:
    from rich.console import Console

    from edgeopt.events import Emit
    from edgeopt.measuring.compare import RunsCompared


def compare(
    before: Annotated[Path, typer.Argument(metavar="A.json", help="The earlier run.", show_default=False)],
    after: Annotated[Path, typer.Argument(metavar="B.json", help="The later run.", show_default=False)],
    json: JsonFlag = False,
) -> None:
    """Compare two saved runs.

    \b
    Each is what --save wrote, or the lines that --json printed. Sides are matched by name. The
    runs were not measured in turns, so their intervals take in what differs from run to run:
    measure with --against where you can.

    \b
    Examples:
      edgeopt bench model.onnx --save monday.json
      edgeopt bench compare monday.json tuesday.json
    """

    def work(_emit: "Emit") -> "RunsCompared":
        from edgeopt.measuring.compare import compare_runs
        from edgeopt.measuring.saved import read_saved

        return compare_runs(read_saved(before), read_saved(after), (str(before), str(after)))

    execute("bench-compare", work, show, json)


def show(found: "RunsCompared", console: "Console") -> None:
    """What differs between the runs, the sides, and how far the figures can be trusted."""
    # Not above: the records behind them bring numpy, and `edgeopt --help` is to be quick.
    from edgeopt.cli.bench_rows import Rows, number
    from edgeopt.cli.bench_show import print_line, table

    for line in found.differences:
        print_line(console, f"warning: {line}", style="yellow")
    rows = [
        [side.name, number(side.before_p50_ms), number(side.after_p50_ms), str(side.speedup), side.verdict]
        for side in found.sides
    ]
    console.print(table(Rows(("", "before ms", "after ms", "speed-up", "after is"), rows), console.width))
    for ratio in found.ratios:
        line = (
            f"{ratio.first} against {ratio.second}, in turns: {ratio.before:.2f}x before, {ratio.after:.2f}x after"
        )
        change = f"changed by {ratio.change}, {ratio.verdict}" if ratio.verdict != "no verdict" else "no verdict"
        print_line(console, f"{line}; {change}.")
    if found.no_verdict:
        print_line(console, f"{found.no_verdict[0].upper()}{found.no_verdict[1:]}.", bold=True)
    elif found.times_unjudged:
        print_line(
            console,
            f"Not measured in turns: no verdict on a side's own time, because {found.times_unjudged}.",
            bold=True,
        )
        if not found.ratios:
            print_line(console, "Measure a baseline in every run (--against): its ratios can be compared.")
    else:
        trust = max(side.trust_above_percent for side in found.sides)
        print_line(console, f"Not measured in turns; trust differences above {number(trust)} %.", bold=True)
        print_line(console, "That takes in how far the stretches of each run lay apart, and how far it drifted.")
    for names, run in ((found.only_before, found.before), (found.only_after, found.after)):
        if names:
            print_line(console, f"Only in {run}: {', '.join(names)}.")
