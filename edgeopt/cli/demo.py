"""`edgeopt demo`: the whole story on the built-in sample."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.console import JsonFlag, execute

if TYPE_CHECKING:
    from rich.console import Console

    from edgeopt.events import Emit
    from edgeopt.search.demo import Demo


def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="Where to write the bundle.")] = Path("demo.edgeopt"),
    json: JsonFlag = False,
) -> None:
    """Show the whole road on the built-in sample: probe, choose, rewrite, race, bundle, load, report.

    \b
    The sample is a small network that reads handwritten digits, with 256 pictures. It takes
    about a minute.

    \b
    Examples:
      edgeopt demo
      edgeopt demo -o /tmp/digits.edgeopt --json
    """

    def work(emit: "Emit") -> "Demo":
        import msgspec

        from edgeopt.report.make import report
        from edgeopt.search.demo import run

        found = run(out, emit)
        page = report(out, out.with_name(f"{out.stem}-report.html"), emit=emit)
        return msgspec.structs.replace(found, report=str(Path(page.path).absolute()))

    execute("demo", work, show, json)


def show(result: "Demo", console: "Console") -> None:
    """What the device is, what was tried, what was gained and why, and how to use it."""

    from edgeopt.cli.optimize import show as show_outcome

    device, outcome = result.device, result.outcome
    console.print(f"Device: {device.cpu.model or 'unknown CPU'}, {device.cpu.simd_level}, "
                  f"{device.limits.usable_cores} usable cores; target {outcome.target}", markup=False)  # fmt: skip
    console.print()
    show_outcome(outcome, console)
    console.print()
    _show_gains(result, console)
    console.print()
    console.print("Use it from Python:")
    console.print(f'  session = edgeopt.load("{outcome.bundle}")', markup=False)
    console.print('  digits = session.run({"image": picture})', markup=False)
    again = shlex.join(["edgeopt", "bench", outcome.bundle, "--against", result.model])
    console.print(f"Measure it again:  {again}", markup=False)
    console.print(f"The whole story:   {result.report}", markup=False)


def _show_gains(result: "Demo", console: "Console") -> None:
    from rich.table import Table

    table = Table("what was gained", "before", "after", "why", box=None, pad_edge=False)
    for gain in result.gains:
        table.add_row(gain.what, gain.before, gain.after, gain.why)
    console.print(table)
