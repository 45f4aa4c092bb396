"""`edgeopt quantize`: fewer bits where they buy time and cost little."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.calibration_options import AugmentOption, ProfileOption, SamplesOption
from edgeopt.cli.console import JsonFlag, execute
from edgeopt.errors import ConstraintError, UsageError
from edgeopt.events import Log

if TYPE_CHECKING:
    from edgeopt.documents.blocks import Block
    from edgeopt.events import Emit, Event
    from edgeopt.quantizing.records import Quantized


def quantize(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="The ONNX model; it is not changed.", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="OUT",
            help="Where it goes: FILE.onnx, or a bundle NAME.edgeopt that holds backend, options and proof too.",
            show_default=False,
        ),
    ] = None,
    single_file: Annotated[
        bool, typer.Option("--single-file", help="Write the bundle as one file instead of a folder.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DATA", help="Samples: an .npz or a folder; 12 or more, half of them calibrate."),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            metavar="METHOD",
            help="plan (a form for each layer), or one form for all: int8, int8-dynamic, int8-groups, a16w8, w8, "
            "w4, fp16, bf16.",
        ),
    ] = "plan",
    floor: Annotated[
        str | None,
        typer.Option(
            metavar="FLOOR",
            help="What must stay: 30dB, or exact (80 dB), transparent (30 dB, the default), balanced (20 dB), "
            "aggressive (12 dB, beside a --metric of the task); or the least value of the --metric.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="METRIC",
            help="snr, cosine, max-error, top1, top5, top1-labels, or a function of your own: module:function, "
            "file.py:function.",
        ),
    ] = None,
    max_drop: Annotated[
        str | None, typer.Option(metavar="DROP", help="How much worse than the source's the metric may be: 0.4%.")
    ] = None,
    labels: Annotated[
        str, typer.Option(metavar="NAME", help="The array in the data that holds the labels [label, labels].")
    ] = "",
    backend: Annotated[
        str, typer.Option(metavar="BACKEND", help="What it is for [of those that are here, the fastest].")
    ] = "",
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the backend (repeatable).")
    ] = None,
    profile: ProfileOption = "",
    keep_float: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE", help="A node that stays float, or a pattern with * (repeatable)."),
    ] = None,
    calibration: Annotated[
        str, typer.Option(metavar="METHOD", help="How ranges are found; `edgeopt compare-calibrations` tries all.")
    ] = "",
    samples: SamplesOption = None,
    augment: AugmentOption = "",
    bias_correction: Annotated[
        bool, typer.Option("--bias-correction", help="Take the mean error of a layer off its bias.")
    ] = False,
    rounding: Annotated[
        bool, typer.Option("--rounding", help="Choose by the data which weights round up and which down.")
    ] = False,
    shape: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=1x3x224x224", help="Fix the shape of an input (repeatable)."),
    ] = None,
    sensitivity: Annotated[
        bool,
        typer.Option("--sensitivity", help="Report what each layer costs and saves; without -o nothing more."),
    ] = False,
    check_targets: Annotated[
        str,
        typer.Option(
            metavar="TARGET,...",
            help="What these targets' devices would do with the result, or without -o with MODEL itself.",
        ),
    ] = "",
    time_limit: Annotated[float | None, typer.Option(metavar="S", help="At most so many seconds.")] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Write everything that was found out there.")
    ] = None,
    all_rows: Annotated[bool, typer.Option("--all", help="List every layer and finding.")] = False,
    json: JsonFlag = False,
) -> None:
    """Quantize the layers that buy the most time for the least error, and prove the result.

    \b
    For each layer its error is measured on your data and its gain in milliseconds on this device.
    The plan saves the most time inside the floor, on one backend; it is proved on samples that
    neither calibration nor the plan saw. Where nothing inside the floor is faster, the model stays
    float, and the frontier shows why. docs/precision.md explains what the tables say.

    \b
    Exit code 0: written; 3: a bad model, data, labels or metric file; 4: keep float (nothing is
    written); 5: a runtime is missing; 6: the source does not run twice alike.

    \b
    Examples:
      edgeopt quantize model.onnx -o model_int8.onnx --data samples.npz
      edgeopt quantize model.onnx -o model.edgeopt --data samples.npz --floor balanced
      edgeopt quantize model.onnx -o m.onnx --data d.npz --metric top1-labels --max-drop 0.4%
      edgeopt quantize model.onnx -o m.onnx --data d.npz --metric score.py:f1 --max-drop 0.01
      edgeopt quantize model.onnx --data samples.npz --sensitivity --all      only look
      edgeopt quantize model.onnx -o m.onnx --data d.npz --method int8 --keep-float '/head/*'
      edgeopt quantize model.onnx -o m.onnx --method w4                       weights alone: no data
      edgeopt quantize model_int8.onnx --data samples.npz --check-targets cpu-avx2,arm-dotprod
    """
    outcomes: list[str] = []
    said: list[str] = []

    def work(emit: "Emit") -> "Quantized":
        from edgeopt.measuring.naming import read_options
        from edgeopt.measuring.saved import check_place, save
        from edgeopt.quantizing.ask import answer
        from edgeopt.quantizing.request import request_from
        from edgeopt.rewriting.order import read_shapes

        targets = tuple(name.strip() for name in check_targets.split(",") if name.strip())
        if out is None and not sensitivity and not targets:
            raise UsageError(
                "Nothing says where the quantized model goes.",
                "Add -o FILE.onnx or NAME.edgeopt, or --sensitivity to look at the layers alone.",
            )
        if report is not None:
            check_place(report, "report")
        request = request_from(
            model,
            out,
            floor=floor,
            metric=metric,
            max_drop=max_drop,
            augment=augment or None,
            options=read_options(option or []),
            single_file=single_file,
            data=data,
            method=method,
            labels=labels,
            backend=backend,
            profile=profile,
            keep_float=tuple(keep_float or ()),
            calibration=calibration,
            samples=samples,
            bias_correction=bias_correction,
            rounding=rounding,
            shapes=read_shapes(tuple(shape or ())),
            sensitivity=sensitivity,
            check_targets=targets,
            time_limit_s=time_limit,
        )
        found = answer(request, noting_warnings(emit, said))
        outcomes.append(found.outcome)
        if report is not None:
            save(found, report)
        return found

    def show(found: "Quantized") -> "list[Block]":
        from edgeopt.cli.quantize_show import show as show_all

        return show_all(found, all_rows, said)

    execute("quantize", work, show, json, "nothing was written")
    if "keep float" in outcomes:
        raise typer.Exit(ConstraintError.exit_code)


def noting_warnings(emit: "Emit", said: list[str]) -> "Emit":
    """Keeps what is told on the way, so that it is not told twice."""

    def told(event: "Event") -> None:
        if isinstance(event, Log) and event.level == "warning":
            said.append(event.message)
        emit(event)

    return told
