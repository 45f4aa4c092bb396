"""`edgeopt quantize` and `compare-calibrations`: a quantized file that was proved, or a report without one."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

import msgspec

from edgeopt.backends.options import as_texts
from edgeopt.bundle.read import is_bundle, read_bundle
from edgeopt.commands.quantize.request import Asked, Wishes, request_from
from edgeopt.data.samples import as_file
from edgeopt.errors import DataError, ModelError
from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.accuracy import agreement
from edgeopt.graph.files.sniff import check_file
from edgeopt.keywords import read, takes
from edgeopt.quant.forms.base import FormContext
from edgeopt.quant.forms.qdq import INT8
from edgeopt.quant.measured.given import Runs
from edgeopt.quant.measured.planning.planned import planned, single
from edgeopt.quant.measured.records import PLAN, Quantized, QuantizeRequest
from edgeopt.quant.measured.timing.courses import Course
from edgeopt.quant.measured.work import Work, check_request, prepare, unfit
from edgeopt.quant.records import CalibrationTried, Range, TargetSaid
from edgeopt.workspace import WORK, workspace


def quantize_model(request: QuantizeRequest, emit: Emit = ignore) -> Quantized:
    """Raises an EdgeoptError for what is wrong with what was given; that nothing is gained is an answer.

    Whatever happens, nothing is left behind but the file that was asked for.
    """
    begin = time.monotonic()
    check_request(request)
    with workspace(WORK) as folder, Runs() as runs:
        work = prepare(request, folder, runs, emit)
        found = planned(work) if request.method == PLAN else single(work)
        return msgspec.structs.replace(
            found,
            targets=_targets(work, found),
            warnings=tuple(work.warnings),
            phases_s=dict(work.study.phases_s),
            seconds=time.monotonic() - begin,
        )


def _targets(work: Work, found: Quantized) -> tuple[TargetSaid, ...]:
    if not work.request.check_targets or not found.files:
        return ()
    from edgeopt.quant.provider_rules import check_targets

    written = Path(found.files[0].path)
    bundle = read_bundle(written) if is_bundle(written) else None
    with work.study.phase("checking targets", ", ".join(work.request.check_targets)):
        return check_targets(bundle.model if bundle is not None else written, work.request.check_targets)


_CLOSE_DB = 0.5
"""Other samples move the ratio by more than this."""


def _only_compared(request: QuantizeRequest, emit: Emit = ignore) -> Quantized:
    """What `edgeopt compare-calibrations` does; nothing is written."""
    begin = time.monotonic()
    with workspace(WORK) as folder, Runs() as runs:
        work = prepare(request, folder, runs, emit)
        rows = compared(work)
        return Quantized(
            "reported",
            _calibrations_summary(rows, len(work.given.plan)),
            str(request.model),
            INT8.name,
            _course(work).backend,
            dict(_course(work).options),
            request.shown_goal,
            calibrations=rows,
            warnings=tuple(work.warnings),
            seconds=time.monotonic() - begin,
            phases_s=dict(work.study.phases_s),
        )


def compared(work: Work) -> tuple[CalibrationTried, ...]:
    """All layers in int8 with each method's ranges, on the samples that plan; the most exact first."""
    from edgeopt.graph.model import save
    from edgeopt.quant.compare_calibrations import compare_calibrations
    from edgeopt.quant.write import tensors_wanted, write

    study, course = work.study, _course(work)
    if not len(work.given.calibrate):
        raise DataError("There are no samples to calibrate with.", "Pass samples with --data.")
    path = work.folder / "calibrated.onnx"

    def judge(ranges: Mapping[str, Range]) -> tuple[float, float]:
        settings = study.known.settings
        context = FormContext(course.backend, settings, ranges)
        choices = {
            layer.name: INT8.name for layer in study.layers if not layer.reason and not INT8.fits(layer, context)
        }
        if not choices:
            raise ModelError(f"There is nothing to calibrate: {unfit(study.layers)}.")
        save(write(study.model, study.layers, choices, context).model, path)
        judged = work.judge.judged(path, course, work.given.plan)
        return judged.snr_db or judged.value, judged.low_db or judged.low

    tensors = tensors_wanted(study.model, study.layers, study.known.settings)
    if not tensors:
        raise ModelError(f"There is nothing to calibrate: {unfit(study.layers)}.", "See: edgeopt analyze MODEL")
    with study.phase("comparing calibrations", f"{len(tensors)} tensors"):
        return compare_calibrations(
            study.path, work.given.samples[work.given.calibrate], tensors, study.known.settings, work.emit, judge
        )


def _course(work: Work) -> Course:
    """Where int8 gains, of what is here."""
    return next((each for each in work.courses if each.backend in INT8.backends), work.courses[0])


def _calibrations_summary(rows: tuple[CalibrationTried, ...], samples: int) -> str:
    best = rows[0]
    if best.snr_db is None:
        return f"The most accurate calibration, tensor by tensor: {best.method}."
    near = [row.method for row in rows[1:] if row.snr_db is not None and best.snr_db - row.snr_db < _CLOSE_DB]
    said = f"; {', '.join(near)} {('is' if len(near) == 1 else 'are')} equally accurate" if near else ""
    reached = f"{agreement(best.snr_db)} on {samples} samples"
    return f"The most accurate calibration of {INT8.name}: {best.method}, {reached}{said}."


def checked(request: QuantizeRequest, emit: Emit = ignore) -> Quantized:
    """What `edgeopt quantize MODEL --check-targets` does without -o: the model is taken as it is."""
    from edgeopt.quant.provider_rules import check_targets

    begin = time.monotonic()
    check_file(request.model)
    emit(Progress("checking targets", ", ".join(request.check_targets)))
    said = check_targets(request.model, request.check_targets)
    return Quantized(
        "reported",
        _targets_summary(said),
        str(request.model),
        "",
        "",
        {},
        request.shown_goal,
        targets=said,
        seconds=time.monotonic() - begin,
    )


def _targets_summary(said: tuple[TargetSaid, ...]) -> str:
    """By verdict, in the order in which the verdicts appear."""
    targets: dict[str, list[str]] = {}
    for row in said:
        targets.setdefault(row.verdict, [])
        if row.target not in targets[row.verdict]:
            targets[row.verdict].append(row.target)
    return "; ".join(f"{verdict}: {', '.join(names)}" for verdict, names in targets.items()) + "."


def answer(request: QuantizeRequest, emit: Emit = ignore) -> Quantized:
    """Quantizes, or only looks, where nothing is to be written."""
    if request.compare_calibrations:
        return _only_compared(request, emit)
    if request.check_targets and request.out is None and not request.sensitivity:
        return checked(request, emit)

    return quantize_model(request, emit)


@takes(Asked, Wishes)
def quantize(
    model: str | Path, out: str | Path | None = None, *, emit: Emit = ignore, **wishes: Unpack[Wishes]
) -> Quantized:
    """Quantizes a model inside the accuracy floor, and writes it where that is faster; says why where it is not.

    `data` is a file, a folder, arrays by input name with samples along the first axis, or any iterable of feeds.
    Without `out` nothing is written, and the result tells what each layer costs and saves.
    """
    with workspace(WORK) as folder:
        data, options = as_file(wishes.get("data"), folder), as_texts(wishes.get("options") or {})
        given = {"sensitivity": out is None, **wishes, "data": data, "options": options}
        return quantize_model(request_from(read(Asked, {**given, "model": model, "out": out})), emit)
