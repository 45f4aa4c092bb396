"""`edgeopt export`: a bundle in a form that other programs run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt import units
from edgeopt.cli.console import JsonFlag, execute
from edgeopt.commands.documents.blocks import Block, Commands, Listed, Words, facts, lines
from edgeopt.errors import UsageError

if TYPE_CHECKING:
    from edgeopt.commands.export.export import Exported, Forms
    from edgeopt.events import Emit


def export(
    bundle: Annotated[
        Path | None, typer.Argument(help="A bundle, as written by `edgeopt optimize`.", show_default=False)
    ] = None,
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="The form; --list shows all.")] = "",
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="The folder to write.", show_default=False)
    ] = None,
    max_batch_size: Annotated[
        int | None,
        typer.Option(
            "--max-batch-size",
            min=0,
            metavar="N",
            help="For a server: the most samples in one run; 0: one request at a time.",
            show_default=False,
        ),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="The formats, a line each.")] = False,
    json: JsonFlag = False,
) -> None:
    """Write a bundle in a form that runs without edgeopt.

    \b
    onnx         the model alone          runner   a script that needs the runtime and numpy
    openvino-ir  the model as .xml, .bin  docker   the same in a container
    triton       a model repository       cpp      C++ source with CMake

    \b
    The exported form answers the bundle's golden samples before it is handed out, where it can be
    run here. What a form cannot carry is said, in README.md too, or refused.

    \b
    Exit code 0: written; 3: the bundle is damaged; 4: the form cannot hold this bundle; 6: it
    answers otherwise than it must.

    \b
    Examples:
      edgeopt export --list
      edgeopt export model.edgeopt --to runner -o model-runner
      edgeopt export model.edgeopt --to triton -o repository --max-batch-size 16
    """
    if listed:
        execute("export-formats", lambda _emit: _formats(), show_formats, json)
    else:
        execute("export", lambda emit: _export(bundle, to, out, max_batch_size, emit), show, json)


def _export(
    bundle: Path | None, to: str, out: Path | None, max_batch_size: int | None, emit: "Emit"
) -> "Exported":
    from edgeopt.commands.export.export import export, format_named

    if to:
        format_named(to)  # a word that is no format is said before what is missing
    if bundle is None or not to or out is None:
        raise UsageError(
            "An export needs a bundle, a format and a folder.",
            "Like this: edgeopt export BUNDLE --to runner -o DIR; --list shows the formats.",
        )
    return export(bundle, to, out, emit, max_batch_size)


def _formats() -> "Forms":
    from edgeopt.commands.export.export import forms

    return forms()


def show_formats(result: "Forms") -> list[Block]:
    return [facts((form.name, form.title) for form in result.formats)]


def show(result: "Exported") -> list[Block]:
    from edgeopt.graph.accuracy import EQUAL_DB, decibels

    said = [f"{result.out}: {result.format}, {result.files} files, {result.size_bytes:,} bytes."]
    if result.accuracy_db is not None:
        equal = result.accuracy_db >= EQUAL_DB
        found = "equal to" if equal else f"{decibels(result.accuracy_db)} against"
        samples = units.count(result.samples, "golden sample")
        needed = f"at least {result.floor_db:.1f} dB is needed"
        said.append(f"Checked: {found} the source model on {samples} ({needed}).")
    if result.not_checked:
        said.append(f"Not checked: {result.not_checked}")
    use = Commands(tuple(("", line) for line in result.use))
    return [*lines(said), Listed(tuple(result.notes)), Words("Use it:"), use]
