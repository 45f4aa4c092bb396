"""`edgeopt run`: a bundle over data, outputs to a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.documents.blocks import Block, Listed, Words

if TYPE_CHECKING:
    from edgeopt.runtime.offline import Ran


def run(
    subject: Annotated[Path, typer.Argument(metavar="BUNDLE|MODEL", help="What to run.", show_default=False)],
    data: Annotated[Path, typer.Option(help="Samples: an .npz or a folder of .npy.", show_default=False)],
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder for the outputs.", show_default=False)],
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a model of which a part falls back.")] = False,
    custom_ops: Annotated[
        list[str] | None,
        typer.Option(metavar="LIB", help="A library of custom operators; repeatable.", show_default=False),
    ] = None,
    process: Annotated[
        bool,
        typer.Option(
            "--process", help="With what the bundle does before and after its model; the data is raw then."
        ),
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Run a bundle or model over data and write its outputs.

    \b
    Writes outputs.npz: one array for each output, samples along the first axis; where the shape of
    an output changes from sample to sample, one array a sample, named OUTPUT/NUMBER.

    \b
    Examples:
      edgeopt run model.edgeopt --data data.npz -o results
      edgeopt run model.edgeopt --data raw.npz -o results --process
      edgeopt run model.onnx --data folder-of-npy -o results --json
    """
    from edgeopt.runtime.offline import run_offline

    libraries = tuple(custom_ops or ())
    execute(
        "run",
        lambda emit: run_offline(subject, data, out, emit, strict=strict, custom_ops=libraries, process=process),
        show,
        json,
    )


def show(result: "Ran") -> list[Block]:
    shapes = tuple(f"{name}  {shape}" for name, shape in list(result.outputs.items())[:20])
    return [Words(f"Ran {result.samples} samples; outputs in {result.out}"), Listed(shapes)]
