"""`edgeopt compare`: what two models have in common, in results and in nodes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.errors import VerificationError

if TYPE_CHECKING:
    from edgeopt.comparing.records import Comparison
    from edgeopt.documents.blocks import Block
    from edgeopt.events import Emit


def compare(
    first: Annotated[
        Path, typer.Argument(metavar="A", help="A model or bundle: the reference.", show_default=False)
    ],
    second: Annotated[Path, typer.Argument(metavar="B", help="What is held against it.", show_default=False)],
    data: Annotated[
        Path | None, typer.Option(metavar="DATA", help="Samples to run; made up where there are none.")
    ] = None,
    backend: Annotated[str | None, typer.Option(metavar="NAME", help="What runs both of them.")] = None,
    backend_a: Annotated[str | None, typer.Option("--backend-a", metavar="NAME", help="What runs A.")] = None,
    backend_b: Annotated[str | None, typer.Option("--backend-b", metavar="NAME", help="What runs B.")] = None,
    layers: Annotated[
        bool | None,
        typer.Option("--layers/--no-layers", help="Look for the first layer that differs [where an output does]."),
    ] = None,
    floor: Annotated[float, typer.Option(metavar="DB", help="Outputs above this ratio count as equal.")] = 80.0,
    all_rows: Annotated[bool, typer.Option("--all", help="List every node and operator that differs.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a document in Markdown.")] = False,
    json: JsonFlag = False,
) -> None:
    """Compare two models: outputs, the first layer that differs, nodes, sizes.

    \b
    Both run on the same samples. The ratio of signal to noise is over all samples together; what
    would pass numpy.allclose is told for each output. A bundle runs as it says of itself. One
    model in two runtimes: give it twice, with --backend-a and --backend-b.

    \b
    Exit code 0: all outputs are above the floor; 6: they are not, or could not be compared.

    \b
    Examples:
      edgeopt compare model.onnx small.onnx
      edgeopt compare model.onnx small.onnx --data samples.npz --floor 40
      edgeopt compare model.onnx model.edgeopt --layers
      edgeopt compare model.onnx model.onnx --backend-a onnxruntime-cpu --backend-b openvino-cpu
    """
    verdicts: list[bool] = []

    def work(emit: "Emit") -> "Comparison":
        from edgeopt.comparing.compare import Question
        from edgeopt.comparing.compare import compare as hold_against

        question = Question(first, second, data, backend_a or backend, backend_b or backend, layers, floor)
        found = hold_against(question, emit)
        verdicts.append(found.within)
        return found

    def show(found: "Comparison") -> "list[Block] | str":
        from edgeopt.cli.compare_rows import sections, verdict
        from edgeopt.documents.blocks import Words, section
        from edgeopt.documents.markdown import page

        parts: list[Block] = [*sections(found, all_rows)]
        if markdown:
            return page(f"{found.first.name} and {found.second.name}", [Words(verdict(found)), *parts])
        return [*parts, section("", Words(verdict(found), "strong"))]

    execute("compare", work, show, json)
    if not all(verdicts):
        raise typer.Exit(VerificationError.exit_code)
