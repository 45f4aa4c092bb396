"""`edgeopt compare-calibrations`: which way to find ranges suits a model and its data."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.calibration_options import AugmentOption, ProfileOption, SamplesOption
from edgeopt.cli.console import JsonFlag, execute

if TYPE_CHECKING:
    from edgeopt.documents.blocks import Block
    from edgeopt.events import Emit
    from edgeopt.quantizing.records import Quantized


def compare_calibrations(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="The ONNX model; it is not changed.", show_default=False)
    ],
    data: Annotated[
        Path, typer.Option(metavar="DATA", help="Samples: an .npz or a folder; half of them calibrate.")
    ],
    backend: Annotated[
        str, typer.Option(metavar="BACKEND", help="For whose int8 [of those that are here, the fastest].")
    ] = "",
    profile: ProfileOption = "",
    samples: SamplesOption = None,
    augment: AugmentOption = "",
    all_rows: Annotated[bool, typer.Option("--all", help="List every finding.")] = False,
    json: JsonFlag = False,
) -> None:
    """Try every method of calibration, and tell how exact the model is with each.

    \b
    All layers are computed in int8 with the ranges that a method finds, on samples that did not
    calibrate. Give the best one to `edgeopt quantize --calibration METHOD`.

    \b
    Examples:
      edgeopt compare-calibrations model.onnx --data samples.npz
      edgeopt compare-calibrations model.onnx --data samples.npz --samples 20
    """

    said: list[str] = []

    def work(emit: "Emit") -> "Quantized":
        from edgeopt.cli.quantize import noting_warnings
        from edgeopt.quantizing.ask import answer
        from edgeopt.quantizing.request import request_from

        request = request_from(
            model,
            data=data,
            backend=backend,
            profile=profile,
            samples=samples,
            augment=augment or None,
            compare_calibrations=True,
        )
        return answer(request, noting_warnings(emit, said))

    def show(found: "Quantized") -> "list[Block]":
        from edgeopt.cli.quantize_show import show as show_all

        return show_all(found, all_rows, said)

    execute("compare-calibrations", work, show, json)
