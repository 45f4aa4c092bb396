"""Options of `edgeopt quantize`, and the request made from them.

Errors that can be found without the model and the data are raised here.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import msgspec

from edgeopt.bundle.request import PicturesFile, SingleFile
from edgeopt.errors import OptionReference, UsageError
from edgeopt.events import Emit, ignore
from edgeopt.keywords import read, takes
from edgeopt.options import DAY_S, argument, option
from edgeopt.pipeline.request import AcceptUnproven, LabelsName, ProofKeywords

if TYPE_CHECKING:
    from edgeopt.backends.options import Value
    from edgeopt.data.judging.goals import Goal
    from edgeopt.quant.measured.records import Quantized, QuantizeRequest

_PLAN = "plan"

Model = Annotated[Path, argument("ONNX model to quantize; never changed.", metavar="MODEL")]
ProfileName = Annotated[
    str, option("Target profile, by name or file (default: the best fit for this device).", metavar="PROFILE")
]
Samples = Annotated[
    int | None,
    option("Maximum number of samples used for calibration (default: half of them, up to 100).", metavar="N"),
]


class QuantizeOptions(msgspec.Struct, frozen=True):
    model: Model
    out: Annotated[
        Path | None,
        option(
            "Result to write: FILE.onnx, or a bundle NAME.edgeopt with backend, options and proof.",
            *("-o", "--out"),
            metavar="OUT",
        ),
    ] = None
    single_file: SingleFile = False
    data: Annotated[
        Path | None,
        option("Samples: an .npz file or a folder; 12 or more; half are used for calibration.", metavar="DATA"),
    ] = None
    pre: PicturesFile = None
    method: Annotated[
        str,
        option(
            "plan (a scheme for each layer), or one scheme for all layers: int8, int8-dynamic, int8-groups, "
            "a16w8, w8, w4, fp16, bf16.",
            metavar="METHOD",
        ),
    ] = _PLAN
    floor: Annotated[
        str | None,
        option(
            "Accuracy floor: exact (80 dB), transparent (30 dB, default), balanced (20 dB), aggressive (12 "
            "dB, needs a task --metric), a ratio such as 25dB, or the minimum of --metric.",
            metavar="FLOOR",
        ),
    ] = None
    no_floor: Annotated[
        bool,
        option("Write the result whatever its accuracy; for methods with one scheme for all layers."),
    ] = False
    metric: Annotated[
        str | None,
        option(
            "Accuracy metric: snr (default), cosine, max-error, top1, top5, top1-labels, or your own function"
            " as module:function or file.py:function.",
            metavar="METRIC",
        ),
    ] = None
    max_drop: Annotated[
        str | None, option("Largest allowed drop of the metric, such as 0.4%.", metavar="DROP")
    ] = None
    accept_unproven_drop: AcceptUnproven = False
    labels: LabelsName = ""
    backend: Annotated[str, option("Backend to plan for (default: the fastest available).", metavar="BACKEND")] = (
        ""
    )
    options: Annotated[
        tuple[str, ...], option("Option of the backend; repeatable.", "--option", metavar="NAME=VALUE")
    ] = ()
    profile: ProfileName = ""
    keep_float: Annotated[
        tuple[str, ...],
        option("Node to keep in float, or a pattern with *; repeatable.", metavar="NODE"),
    ] = ()
    calibration: Annotated[
        str, option("Calibration method; `edgeopt compare-calibrations` tries all of them.", metavar="METHOD")
    ] = ""
    samples: Samples = None
    shape: Annotated[
        tuple[str, ...], option("Shape to fix for an input; repeatable.", metavar="NAME=1x3x224x224")
    ] = ()
    sensitivity: Annotated[
        bool, option("Report the error and gain of each layer; without -o, do nothing else.")
    ] = False
    check_targets: Annotated[
        str,
        option(
            "Check if these targets support the result; without -o, check the source model.",
            metavar="TARGET,...",
        ),
    ] = ""
    time_limit_s: Annotated[
        float | None, option("Time limit, in seconds.", metavar="S", minimum=5, maximum=DAY_S)
    ] = None


class CalibrationOptions(msgspec.Struct, frozen=True):
    model: Model
    data: Annotated[
        Path, option("Samples: an .npz file or a folder; half are used for calibration.", metavar="DATA")
    ]
    pre: PicturesFile = None
    backend: Annotated[
        str, option("Backend whose int8 is tried (default: the fastest available).", metavar="BACKEND")
    ] = ""
    profile: ProfileName = ""
    samples: Samples = None


class QuantizeKeywords(ProofKeywords, total=False):
    """Keywords of `edgeopt.quantize`; a test compares them with the options."""

    method: str
    no_floor: bool
    backend: str
    options: "Mapping[str, Value] | None"
    profile: str | Path
    keep_float: Iterable[str]
    calibration: str
    samples: int | None
    sensitivity: bool
    check_targets: Iterable[str]


def request_from(options: QuantizeOptions | CalibrationOptions) -> "QuantizeRequest":
    """Returns the request for the given options; raises UsageError if they are invalid."""
    from edgeopt.quant.measured.records import QuantizeRequest

    known = QuantizeRequest.__struct_fields__
    same = {name: value for name, value in msgspec.structs.asdict(options).items() if name in known}
    if isinstance(options, CalibrationOptions):
        request = QuantizeRequest(**same, compare_calibrations=True)
    else:
        from edgeopt.commands.bench.naming import read_options
        from edgeopt.options import read_shapes

        same |= {"goal": _goal(options), "options": _plain(read_options(list(options.options)))}
        targets = tuple(name.strip() for name in options.check_targets.split(",") if name.strip())
        request = QuantizeRequest(**{**same, "shapes": read_shapes(options.shape), "check_targets": targets})
    _check(request)
    return request


def _goal(options: QuantizeOptions) -> "Goal":
    from edgeopt.data.judging.goals import NO_FLOOR, goal_from

    if not options.no_floor:
        return goal_from(options.metric, options.floor, options.max_drop, options.accept_unproven_drop)
    none = OptionReference("no_floor")
    values = {"floor": options.floor, "metric": options.metric, "max_drop": options.max_drop}
    conflict = next((OptionReference(name) for name, text in values.items() if text is not None), None)
    if conflict is not None:
        raise UsageError(f"{none} and {conflict} exclude each other.", "Leave one of them out.", [none, conflict])
    if options.method == _PLAN:
        method = OptionReference("method", "int8")
        raise UsageError(
            f"A plan needs a goal, so it cannot be used with {none}.",
            f"Choose one scheme for all layers, such as {method}, or leave {none} out.",
            [none, method],
        )
    return NO_FLOOR


def _plain(options: Mapping[str, object]) -> "dict[str, Value]":
    found: dict[str, Value] = {}
    for name, value in options.items():
        if not isinstance(value, str | int | float | bool):
            raise UsageError(f"The option '{name}' must be a single value.", "To fix shapes, give --shape.")
        found[name] = value
    return found


def _check(request: "QuantizeRequest") -> None:
    from edgeopt.bundle.deployment import SUFFIX
    from edgeopt.bundle.read import place_named
    from edgeopt.nearest import nearest

    if request.single_file and (request.out is None or request.out.suffix != SUFFIX):
        raise UsageError(
            "--single-file is for bundles, but no bundle is written.",
            f"Add -o NAME{SUFFIX}, or leave --single-file out.",
        )
    place = place_named(request.options) if request.out is not None and request.out.suffix == SUFFIX else None
    if place is not None:
        raise UsageError(
            f"A bundle does not take the option '{place}': it names a path on this device.",
            "Leave it out; it can be set when a plain model is run or measured.",
        )
    if request.options and not request.backend:
        raise UsageError(
            "--option needs --backend.",
            "Add --backend NAME; `edgeopt backends` lists them with their options.",
        )
    if request.calibration:
        from edgeopt.quant.ranges import METHODS as CALIBRATIONS

        known = tuple(method.name for method in CALIBRATIONS)
        if (name := request.calibration) not in known:
            raise UsageError(f"There is no method of calibration '{name}'.", nearest(name, known))
    for name in request.check_targets:
        from edgeopt.profiles.load import shipped_profiles

        known = tuple(profile.name for profile in shipped_profiles())
        if name not in known and not Path(name).is_file():
            raise UsageError(f"There is no target '{name}'.", nearest(name, known))


@takes(QuantizeOptions, QuantizeKeywords)
def quantize(
    model: str | Path, out: str | Path | None = None, *, emit: Emit = ignore, **wishes: Unpack[QuantizeKeywords]
) -> "Quantized":
    """Quantizes a model inside the accuracy floor, and writes it where that is faster; says why where it is not.

    `data` is a file, a folder, arrays by input name with samples along the first axis, or any iterable of feeds.
    Without `out` nothing is written, and the result tells what each layer costs and saves.
    """
    from edgeopt.backends.options import as_texts
    from edgeopt.data.samples import as_file
    from edgeopt.pipeline.quantize import quantize_model
    from edgeopt.workspace import WORK, workspace

    with workspace(WORK) as folder:
        data, options = as_file(wishes.get("data"), folder), as_texts(wishes.get("options") or {})
        values = {"sensitivity": out is None, **wishes, "data": data, "options": options}
        return quantize_model(request_from(read(QuantizeOptions, {**values, "model": model, "out": out})), emit)
