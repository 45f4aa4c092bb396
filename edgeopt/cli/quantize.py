"""`edgeopt quantize`: fewer bits where they buy time and cost little."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.cli.from_request import asks
from edgeopt.cli.next_steps import next_steps
from edgeopt.commands.quantize.request import Asked, request_from
from edgeopt.errors import ConstraintError, UsageError
from edgeopt.events import Log

if TYPE_CHECKING:
    from edgeopt.commands.documents.blocks import Block
    from edgeopt.events import Emit, Event
    from edgeopt.quant.measured.records import Quantized


@asks(Asked)
def quantize(
    asked: Asked,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="JSON file to write all findings to.")
    ] = None,
    all_rows: Annotated[bool, typer.Option("--all", help="List all layers and findings.")] = False,
    json: JsonFlag = False,
) -> None:
    """Quantize the layers that save the most time for the least error, and prove the result.

    \b
    For each layer, edgeopt measures the error that quantization causes on your data, and the time
    that it saves on this device. From this it makes a plan (a scheme for each layer) that saves the
    most time within the accuracy floor on one backend, and proves it on samples used neither for
    calibration nor for the plan. If no result is faster than the float model, nothing is written, and
    the frontier (the table of speed against error) shows why. docs/precision.md explains the tables.

    \b
    Exit code 0: written; 3: a bad model, data, labels or metric file; 4: float is best, nothing is
    written; 5: a runtime is missing; 6: two runs of the source differ.

    \b
    Examples:
      edgeopt quantize model.onnx -o model_int8.onnx --data samples.npz
      edgeopt quantize model.onnx -o model.edgeopt --data samples.npz --floor balanced
      edgeopt quantize model.onnx -o m.onnx --data d.npz --metric top1-labels --max-drop 0.4%
      edgeopt quantize model.onnx -o m.onnx --data d.npz --method int8 --keep-float '/head/*'
      edgeopt quantize model.onnx --data samples.npz --sensitivity --all      report only
    """
    outcomes: list[str] = []
    said: list[str] = []

    def work(emit: "Emit") -> "Quantized":
        from edgeopt.commands.bench.saved import check_place, save
        from edgeopt.commands.quantize.quantize import answer

        if asked.out is None and not asked.sensitivity and not asked.check_targets.strip(" ,"):
            raise UsageError(
                "The quantized model has no output path.",
                "Add -o FILE.onnx or NAME.edgeopt, or --sensitivity to see only the layers.",
            )
        if report is not None:
            check_place(report, "report")
        found = answer(request_from(asked), noting_warnings(emit, said))
        outcomes.append(found.outcome)
        if report is not None:
            save(found, report)
        return found

    def show(found: "Quantized") -> "list[Block]":
        from edgeopt.cli.quantize_show import show as show_all

        shown = show_all(found, all_rows, said)
        if found.files and asked.out is not None and asked.model is not None:
            shown.append(next_steps(asked.out, asked.model, asked.data, found.float_side or "onnxruntime-cpu"))
        return shown

    execute("quantize", work, show, json, "nothing was written")
    if "keep float" in outcomes:
        raise typer.Exit(ConstraintError.exit_code)


def noting_warnings(emit: "Emit", said: list[str]) -> "Emit":
    """Keeps the messages shown during the work, so that none is shown twice."""

    def told(event: "Event") -> None:
        if isinstance(event, Log) and event.level == "warning":
            said.append(event.message)
        emit(event)

    return told
