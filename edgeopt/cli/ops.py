"""`edgeopt ops`: single operators on this device, by backend."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.cli.markdown import refuse_two_voices
from edgeopt.errors import UsageError

if TYPE_CHECKING:
    from edgeopt.commands.documents.blocks import Block
    from edgeopt.commands.ops.result import Report
    from edgeopt.events import Emit


def ops(
    model: Annotated[
        Path | None,
        typer.Argument(metavar="[MODEL]", help="Try the operators of this model alone.", show_default=False),
    ] = None,
    backend: Annotated[
        list[str] | None,
        typer.Option("--backend", metavar="NAME", help="Try this backend; may be given several times."),
    ] = None,
    only: Annotated[
        str | None, typer.Option("--only", metavar="OP,OP", help="Try these operators alone: Conv,MatMul.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Try small shapes alone.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Measure anew what was measured before.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the matrix as Markdown.")] = False,
    json: JsonFlag = False,
) -> None:
    """Show which operators each backend gets right on this device, and how fast it is at them.

    \b
    About a thousand small models, of one operator each, run on every backend that is here. What they
    give is compared with numpy in double precision; a crash or a hang is a result too. Results are
    kept, so that the next call shows them at once.

    \b
    Examples:
      edgeopt ops                               all operators on all backends
      edgeopt ops model.onnx                    what that means for a model
      edgeopt ops --only Conv,MatMul --again
      edgeopt ops --quick --backend openvino-cpu
      edgeopt ops --markdown > operators.md
      edgeopt ops --json | jq '.data.counts'
    """

    def work(emit: "Emit") -> "Report":
        refuse_two_voices(json, markdown)
        if model is not None and only:
            raise UsageError("MODEL already says which operators to try; --only does too.", "Give one of them.")
        names = tuple(name.strip() for name in (only or "").split(",") if name.strip())
        return find(model, tuple(backend or ()), names, quick, again, emit)

    def show(report: "Report") -> "list[Block] | str":
        from edgeopt.cli import ops_show

        return ops_show.markdown(report) if markdown else ops_show.show(report)

    execute(
        "ops",
        work=work,
        show=show,
        json=json,
        left_behind="what was measured until then is kept, and the same command goes on from there",
    )


def find(
    model: Path | None, backends: tuple[str, ...], only: tuple[str, ...], quick: bool, again: bool, emit: "Emit"
) -> "Report":
    """The report, with what it means for the model where one is given."""
    import msgspec

    from edgeopt.commands.ops.assess import Choice, assess
    from edgeopt.hw.probe import probe

    if model is None:
        return assess(probe(), Choice(backends, only, quick=quick, again=again), emit)
    from edgeopt.commands.ops.compatibility import compatibility, kinds_of
    from edgeopt.errors import ModelError
    from edgeopt.graph.analysis.onnx import analyze_onnx

    analysis = analyze_onnx(model)
    used, precisions = kinds_of(analysis)
    if not used:
        raise ModelError(
            f"There is no case of any operator of '{model.name}'.",
            "See what it is made of: edgeopt analyze MODEL",
        )
    report = assess(probe(), Choice(backends, used, precisions, quick, again), emit)
    return msgspec.structs.replace(report, model=compatibility(analysis, report))
