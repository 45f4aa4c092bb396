"""`edgeopt compare`: what two models have in common, in results and in nodes."""

from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.cli.from_request import asks
from edgeopt.commands.compare.request import Request
from edgeopt.errors import VerificationError

if TYPE_CHECKING:
    from edgeopt.commands.compare.records import Comparison
    from edgeopt.commands.documents.blocks import Block
    from edgeopt.events import Emit


@asks(Request)
def compare(
    request: Request,
    all_rows: Annotated[bool, typer.Option("--all", help="List all nodes and operators that differ.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown, for example for a job summary.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Compare two models: outputs, first layer that differs, nodes, sizes.

    \b
    Both models run on the same samples. The signal-to-noise ratio covers all samples; each output
    also shows whether numpy.allclose would pass. A bundle runs on its own backend and options, and
    the model beside it in plain ONNX Runtime, so that errors of the runtime show; the bundle's own
    floor counts. To compare two runtimes, give the same model twice with --backend-a and --backend-b.

    \b
    Exit code 0: all outputs are above the floor; 6: some are below, or could not be compared.

    \b
    Examples:
      edgeopt compare model.onnx small.onnx
      edgeopt compare model.onnx small.onnx --data samples.npz --floor 40
      edgeopt compare model.onnx model.edgeopt --layers
      edgeopt compare model.onnx small.onnx --html changes.html
      edgeopt compare model.onnx model.onnx --backend-a onnxruntime-cpu --backend-b openvino-cpu
    """
    verdicts: list[bool] = []

    def work(emit: "Emit") -> "Comparison":
        from edgeopt.commands.compare.compare import compare as hold_against

        found = hold_against(request, emit)
        verdicts.append(found.within)
        return found

    def show(found: "Comparison") -> "list[Block] | str":
        from edgeopt.cli.compare_rows import sections, verdict
        from edgeopt.commands.documents.blocks import Words, section
        from edgeopt.commands.documents.markdown import page

        parts: list[Block] = [*sections(found, all_rows)]
        if markdown:
            return page(f"{found.first.name} and {found.second.name}", [Words(verdict(found)), *parts])
        return [*parts, section("", Words(verdict(found), "strong"))]

    execute("compare", work, show, json)
    if not all(verdicts):
        raise typer.Exit(VerificationError.exit_code)
