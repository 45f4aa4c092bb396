"""`edgeopt report`: what is known of a bundle, as one file to read, to print or to send."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt import units
from edgeopt.cli.console import JsonFlag, execute
from edgeopt.commands.documents.blocks import Block, Words, lines

if TYPE_CHECKING:
    from edgeopt.commands.report.facts import Reports
    from edgeopt.events import Emit


class Format(StrEnum):
    """As `edgeopt.commands.report.make.FORMATS`."""

    html = "html"
    markdown = "markdown"
    json = "json"


def report(
    bundle: Annotated[Path, typer.Argument(help="A bundle: a folder or a single file.", show_default=False)],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="The file to write: .html, .md or .json.", show_default=False)
    ],
    to: Annotated[
        Format | None, typer.Option("--to", help="What to write, where the ending of the file does not say it.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", metavar="SOURCE", help="The source model: its cost is held against the result's."),
    ] = None,
    nodes: Annotated[
        bool | None,
        typer.Option(
            "--nodes/--no-nodes",
            help="Measure the time of each node, here and now [on a device like the one that it was proved on].",
            show_default=False,
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Write a report of a bundle: verdict, evidence, every decision with its reason.

    \b
    The HTML file is complete in itself: it loads nothing, runs no script, follows the light or dark
    theme of the reader, and prints. What the bundle does not tell is said to be unknown. All comes
    from the bundle but the operators (its model is read) and the time of each node (it is run for a
    few seconds, in processes of its own).

    \b
    Examples:
      edgeopt report model.edgeopt -o report.html
      edgeopt report model.edgeopt -o report.html --model model.onnx
      edgeopt report model.edgeopt -o report.md --no-nodes
      edgeopt report model.edgeopt -o facts.json && jq .accuracy.outputs facts.json
    """

    def work(emit: "Emit") -> "Reports":
        from edgeopt.commands.report.make import report as make

        return make(bundle, out, to.value if to else None, source=model, nodes=nodes, emit=emit)

    execute("report", work, show, json)


def show(found: "Reports") -> list[Block]:
    unknown = (f"Not known: {what}. {reason}" for what, reason in found.unknown.items())
    last = Words(f"Report: {found.path} ({units.size(found.size_bytes)})", "strong")
    return [Words(found.summary), *lines(unknown, "faint"), last]
