"""`edgeopt compare-calibrations`: which way to find ranges suits a model and its data."""

from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.commands.quantize.request import AskedCalibrations, request_from

if TYPE_CHECKING:
    from edgeopt.commands.documents.blocks import Block
    from edgeopt.events import Emit
    from edgeopt.quant.measured.records import Quantized


@asks(AskedCalibrations)
def compare_calibrations(
    asked: AskedCalibrations,
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

    said: list[str] = []

    def work(emit: "Emit") -> "Quantized":
        from edgeopt.cli.quantize import noting_warnings
        from edgeopt.commands.quantize.quantize import answer

        return answer(request_from(asked), noting_warnings(emit, said))

    def show(found: "Quantized") -> "list[Block]":
        from edgeopt.cli.quantize import show_quantized as show_all

        return show_all(found, all_rows, said)

    execute("compare-calibrations", work, show, json)
