"""`edgeopt profile`: deployment profiles as files, and what differs between two."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt import units
from edgeopt.cli import program
from edgeopt.cli.console import JsonFlag, execute

if TYPE_CHECKING:
    from rich.console import Console

    from edgeopt.replaying.difference import Difference
    from edgeopt.replaying.exported import Exported, Imported

Given = Annotated[
    Path, typer.Argument(metavar="PROFILE|BUNDLE", help="A bundle, or an exported profile.", show_default=False)
]


def _profile(context: typer.Context) -> None:
    """Export the deployment profile of a bundle, look at one, or compare two. All speak --json.

    \b
    A deployment profile says how a bundle was made and what was proved of it; with the source model
    it is enough to make the bundle again (edgeopt replay). Target profiles, which say how to search,
    are another thing: edgeopt targets.

    \b
    Examples:
      edgeopt profile export model.edgeopt -o model.toml
      edgeopt profile import model.toml model.onnx
      edgeopt profile diff old.edgeopt new.edgeopt
    """
    program.help_without_command(context)


def export(
    bundle: Given,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="TOML", help="The file.", show_default=False)],
    json: JsonFlag = False,
) -> None:
    """Write the deployment profile of a bundle as one file, enough for a replay.

    \b
    What calibration found is inside, so that a replay needs the source model alone. Golden samples
    are not: a replay from the file takes some from --data, or makes them up.

    \b
    Examples:
      edgeopt profile export model.edgeopt -o model.toml
      edgeopt replay model.toml model.onnx -o again.edgeopt
    """
    from edgeopt.replaying.exported import export as exported

    execute("profile-export", lambda _emit: exported(bundle, out), show_exported, json)


def import_(
    profile: Given,
    model: Annotated[
        Path | None, typer.Argument(help="The source model: is it the right one?", show_default=False)
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Check a deployment profile and say what it would give on this device; writes nothing.

    \b
    Examples:
      edgeopt profile import model.toml
      edgeopt profile import model.toml model.onnx --json | jq -r .data.command
    """
    from edgeopt.replaying.exported import look_at

    execute("profile-import", lambda _emit: look_at(profile, model), show_imported, json)


def diff(
    first: Annotated[Path, typer.Argument(metavar="A", help="A bundle or a profile.", show_default=False)],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another one.", show_default=False)],
    json: JsonFlag = False,
) -> None:
    """Show what differs between two deployments: backend, options, steps, forms of layers, evidence.

    \b
    Examples:
      edgeopt profile diff old.edgeopt new.edgeopt
      edgeopt profile diff model.toml model.edgeopt --json | jq .data.rows
    """
    from edgeopt.replaying.difference import difference

    execute("profile-diff", lambda _emit: difference(first, second), show_difference, json)


def show_exported(result: "Exported", console: "Console") -> None:
    console.print(f"{result.profile}: {units.size(result.size_bytes)}, from {result.bundle}", markup=False)
    _show_steps(result.steps, console)
    console.print(result.summary, markup=False)


def show_imported(result: "Imported", console: "Console") -> None:
    console.print(f"{result.name} on {result.backend}, for the target {result.target}", markup=False)
    _show_steps(result.steps, console)
    for line in result.processing:
        console.print(f"  {line}", markup=False)
    console.print(f"Proved then: {result.summary}", markup=False)
    checked = "which is the model given" if result.source_checked else "not looked at here"
    console.print(f"Source model: {result.source} ({result.source_digest[:12]}...), {checked}.", markup=False)
    if result.unavailable:
        console.print(result.unavailable, markup=False)
    if result.changes:
        console.print("This device is another than the one that it was proved on:")
        for each in result.changes:
            console.print(f"  {each.part}: {each.then}  ->  {each.now}", markup=False)
    console.print(f"Make the bundle: {result.command}", markup=False)


def show_difference(result: "Difference", console: "Console") -> None:
    if result.rows:
        from rich.table import Table
        from rich.text import Text

        table = Table("part", "what", box=None, pad_edge=False)
        for side in (result.first, result.second):
            table.add_column(Text(side))
        for row in result.rows:
            table.add_row(*(Text(cell) for cell in (row.part, row.what, row.first, row.second)))
        console.print(table)
    console.print(result.summary, markup=False)


def _show_steps(steps: tuple[str, ...], console: "Console") -> None:
    for number, step in enumerate(steps, 1):
        console.print(f"  {number}. {step}", markup=False)


# In the order of work, which is the order in `--help`; `import` is a word of Python's own.
COMMANDS: tuple[tuple[str, Callable[..., None]], ...] = (("export", export), ("import", import_), ("diff", diff))

profile = program.application(_profile)
for name, command in COMMANDS:
    program.add(profile, name, command)
