"""`edgeopt compare`: what two models have in common, in results and in nodes."""

from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.cli.from_request import asks
from edgeopt.comparing.question import Question
from edgeopt.errors import VerificationError

if TYPE_CHECKING:
    from rich.console import Console

    from edgeopt.cli.compare_rows import Section
    from edgeopt.comparing.records import Comparison
    from edgeopt.events import Emit


@asks(Question)
def compare(
    question: Question,
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
        from edgeopt.comparing.compare import compare as hold_against

        found = hold_against(question, emit)
        verdicts.append(found.within)
        return found

    def show(found: "Comparison", console: "Console") -> None:
        from edgeopt.cli.compare_rows import sections, verdict

        parts = sections(found, all_rows)
        if markdown:
            print(as_markdown(f"{found.first.name} and {found.second.name}", verdict(found), parts))
        else:
            for part in parts:
                _print(part, console)
            console.print(verdict(found), style="bold", markup=False)

    execute("compare", work, show, json)
    if not all(verdicts):
        raise typer.Exit(VerificationError.exit_code)


def _print(part: "Section", console: "Console") -> None:
    from rich.table import Table
    from rich.text import Text

    if part.rows:
        table = Table(box=None, pad_edge=False)
        for position, column in enumerate(part.columns):
            table.add_column(Text(column), overflow="fold", no_wrap=position > 0 and len(part.columns) > 5)
        for row in part.rows:
            table.add_row(*map(Text, row))
        console.print(Text(part.title, "bold"))
        console.print(table)
    for line in part.lines:
        console.print(line, markup=False)
    console.print()


def as_markdown(title: str, said: str, parts: "list[Section]") -> str:
    lines = [f"# {title}", "", said]
    for part in parts:
        lines += ["", f"## {part.title}"]
        if part.rows:
            rows = [part.columns, ["---"] * len(part.columns), *part.rows]
            lines += ["", *(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows)]
        lines += [text for line in part.lines for text in ("", line)]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
