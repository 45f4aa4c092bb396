"""`edgeopt analyze`: what a model is made of, what it costs, and what could be done about it."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt import events
from edgeopt.cli.console import JsonFlag, execute
from edgeopt.cli.markdown import refuse_two_voices
from edgeopt.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgeopt.documents.blocks import Block
    from edgeopt.graph.analysis import Analysis

_SHAPE = re.compile(r"(?P<name>.+)=(?P<sizes>\d+(?:x\d+)*|)")


def analyze(
    subject: Annotated[Path, typer.Argument(metavar="MODEL|BUNDLE", help="What to look at.", show_default=False)],
    data: Annotated[
        Path | None, typer.Option("--data", metavar="D", help="Samples: the figures are for their shapes.")
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option("--shape", metavar="NAME=1x3x224x224", help="The shape of an input (repeatable)."),
    ] = None,
    backend: Annotated[
        list[str] | None,
        typer.Option("--backend", metavar="NAME", help="Ask only this one what it would run (repeatable)."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", metavar="N", min=1, help="The cores that a run may use.")
    ] = None,
    profile_ops: Annotated[
        bool, typer.Option("--profile-ops", help="Measure the time of every node, on each backend asked.")
    ] = False,
    no_run: Annotated[
        bool, typer.Option("--no-run", help="Never run the model, even where shapes stay unknown.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only read the model: try no pass, ask no runtime, run nothing.")
    ] = False,
    nodes: Annotated[bool, typer.Option("--nodes", help="Print every node with its cost too.")] = False,
    weights: Annotated[
        bool, typer.Option("--weights", help="Print more weights, with their ranges and zeros.")
    ] = False,
    markdown: Annotated[
        str | None, typer.Option("--markdown", metavar="FILE", help="Write a document; - prints it.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Show what a model is, what it costs, what could be done about it, and what would run it here.

    \b
    Operators, floating-point operations, memory, weights; the least time that this device's
    measured peaks allow; opportunities, the largest gain first; the nodes that each installed
    backend would run. Of a bundle it shows the model inside, and what the bundle says of itself.

    \b
    Examples:
      edgeopt analyze model.onnx
      edgeopt analyze model.onnx --shape image=1x3x224x224 --nodes
      edgeopt analyze model.onnx --profile-ops --backend openvino-cpu --threads 2
      edgeopt analyze model.edgeopt --markdown report.md
      edgeopt analyze model.onnx --json | tail -1 | jq '.data.opportunities'
    """
    from edgeopt.analyzing.analyze import analyze as look

    def work(emit: events.Emit) -> "Analysis":
        refuse_two_voices(json, markdown is not None)
        if markdown is not None and not Path(markdown).absolute().parent.is_dir():
            raise UsageError(f"The folder of '{markdown}' does not exist.", "Make it first.")
        if profile_ops and no_run:
            raise UsageError("--profile-ops runs the model, and --no-run forbids it.", "Give one of them.")
        if quick and (profile_ops or backend):
            raise UsageError("--quick asks no runtime; --backend and --profile-ops do.", "Leave one of them out.")
        found = look(
            subject,
            emit,
            data=data,
            shapes=parse_shapes(shape or []),
            backends=backend or (),
            threads=threads,
            coverage=not quick,
            opportunities=not quick,
            run=not (no_run or quick),
            profile_ops=(tuple(backend) if backend else True) if profile_ops else (),
        )
        if markdown is not None and markdown != "-":
            _write(Path(markdown), found, nodes, weights, looked=not quick)
        return found

    def show(analysis: "Analysis") -> "Sequence[Block] | str":
        from edgeopt.cli.analyze_sections import sections
        from edgeopt.documents.blocks import lines

        if markdown == "-":
            return _page(analysis, nodes, weights, looked=not quick)
        if markdown is not None:
            return lines([f"Written: {markdown}"])
        return sections(analysis, nodes, weights, not quick)

    execute("analyze", work=work, show=show, json=json)


def parse_shapes(words: list[str]) -> dict[str, tuple[int, ...]]:
    """`image=1x3x224x224` as the input's name and its shape; UsageError for anything else."""
    found: dict[str, tuple[int, ...]] = {}
    for word in words:
        match = _SHAPE.fullmatch(word)
        if match is None:
            raise UsageError(
                f"'{word}' is not the shape of an input.", "Write its name and sizes: --shape image=1x3x224x224"
            )
        found[match["name"]] = tuple(int(size) for size in match["sizes"].split("x") if size)
    return found


def _page(analysis: "Analysis", nodes: bool, weights: bool, looked: bool) -> str:
    from edgeopt.cli.analyze_sections import sections
    from edgeopt.documents.markdown import page

    return page(analysis.name, sections(analysis, nodes, weights, looked))


def _write(path: Path, analysis: "Analysis", nodes: bool, weights: bool, looked: bool) -> None:
    from edgeopt.bench.files import writing

    with writing(path) as file:
        file.write(_page(analysis, nodes, weights, looked).encode())
