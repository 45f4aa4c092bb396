"""`edgeopt analyze`: what a model is made of, what it costs, and what could be done about it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt import events
from edgeopt.cli.console import JsonFlag, asks, execute, refuse_two_voices
from edgeopt.commands.analyze.request import AnalyzeRequest
from edgeopt.errors import UsageError
from edgeopt.views.blocks import Block, lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgeopt.graph.analysis import Analysis


@asks(AnalyzeRequest)
def analyze(
    request: AnalyzeRequest,
    nodes: Annotated[bool, typer.Option("--nodes", help="Also print each node with its cost.")] = False,
    weights: Annotated[
        bool,
        typer.Option(
            "--weights", help="List more weights than by default, each with its range and share of zeros."
        ),
    ] = False,
    markdown: Annotated[
        str | None, typer.Option("--markdown", metavar="FILE", help="Markdown file to write; - prints it.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Analyze a model: operators, cost, opportunities, and the backends that run it.

    \b
    Shows operators, floating-point operations, memory and weights; the shortest possible run time at
    this device's measured peaks; opportunities, largest gain first; and the nodes that each
    installed backend would run. For a bundle, shows the model inside and its deployment.

    \b
    Examples:
      edgeopt analyze model.onnx
      edgeopt analyze model.onnx --shape image=1x3x224x224 --nodes
      edgeopt analyze model.onnx --profile-ops --backend openvino-cpu --threads 2
      edgeopt analyze model.edgeopt --markdown report.md
      edgeopt analyze model.onnx --json | tail -1 | jq '.data.opportunities'
    """
    from edgeopt.commands.analyze.analyze import analyze_request
    from edgeopt.views.analysis import sections
    from edgeopt.views.markdown import page

    def blocks_of(analysis: "Analysis") -> "Sequence[Block]":
        return sections(analysis, nodes, weights, not request.quick)

    def work(emit: events.Emit) -> "Analysis":
        refuse_two_voices(json, markdown is not None)
        if markdown is not None and not Path(markdown).absolute().parent.is_dir():
            raise UsageError(f"The folder of '{markdown}' does not exist.", "Create it first.")
        found = analyze_request(request, emit)
        if markdown is not None and markdown != "-":
            from edgeopt.measure.files import writing

            with writing(Path(markdown)) as file:
                file.write(page(found.name, blocks_of(found)).encode())
        return found

    def show(analysis: "Analysis") -> "Sequence[Block] | str":
        if markdown == "-":
            return page(analysis.name, blocks_of(analysis))
        return blocks_of(analysis) if markdown is None else lines([f"Written: {markdown}"])

    execute("analyze", work, show, json)
