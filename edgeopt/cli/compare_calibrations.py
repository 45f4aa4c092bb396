"""`edgeopt compare-calibrations`: which way to find ranges suits a model and its data."""

from functools import partial
from typing import Annotated

import typer

from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.commands.quantize import CalibrationOptions, request_from


@asks(CalibrationOptions)
def compare_calibrations(
    request: CalibrationOptions,
    all_rows: Annotated[bool, typer.Option("--all", help="List all findings.")] = False,
    json: JsonFlag = False,
) -> None:
    """Compare the accuracy of all calibration methods.

    \b
    Runs all layers in int8 with the ranges of each method, on samples not used for calibration. Pass
    the best one to `edgeopt quantize --calibration METHOD`.

    \b
    Examples:
      edgeopt compare-calibrations model.onnx --data samples.npz
      edgeopt compare-calibrations model.onnx --data samples.npz --samples 20
    """

    from edgeopt.cli.quantize import show_quantized
    from edgeopt.pipeline.quantize import quantize_model

    execute(
        "compare-calibrations",
        lambda emit: quantize_model(request_from(request), emit),
        partial(show_quantized, every=all_rows, warned=True),
        json,
    )
