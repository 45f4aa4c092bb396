"""Which calibration suits a model and its data: each is tried on all layers, and judged by real runs."""

import time
from collections.abc import Mapping

from edgeopt.errors import DataError, ModelError
from edgeopt.events import Emit, ignore
from edgeopt.graph.accuracy import agreement
from edgeopt.quant.forms.base import FormContext
from edgeopt.quant.forms.qdq import INT8
from edgeopt.quant.measured.given import Runs
from edgeopt.quant.measured.records import Quantized, QuantizeRequest
from edgeopt.quant.measured.timing.courses import Course
from edgeopt.quant.measured.work import Work, prepare, unfit
from edgeopt.quant.records import CalibrationTried, Range
from edgeopt.workspace import WORK, workspace

_CLOSE_DB = 0.5
"""Other samples move the ratio by more than this."""


def only_compared(request: QuantizeRequest, emit: Emit = ignore) -> Quantized:
    """What `edgeopt compare-calibrations` does; nothing is written."""
    begin = time.monotonic()
    with workspace(WORK) as folder, Runs() as runs:
        work = prepare(request, folder, runs, emit)
        rows = compared(work)
        return Quantized(
            "reported",
            _summary(rows, len(work.given.plan)),
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


def _summary(rows: tuple[CalibrationTried, ...], samples: int) -> str:
    best = rows[0]
    if best.snr_db is None:
        return f"The most accurate calibration, tensor by tensor: {best.method}."
    near = [row.method for row in rows[1:] if row.snr_db is not None and best.snr_db - row.snr_db < _CLOSE_DB]
    said = f"; {', '.join(near)} {('is' if len(near) == 1 else 'are')} equally accurate" if near else ""
    reached = f"{agreement(best.snr_db)} on {samples} samples"
    return f"The most accurate calibration of {INT8.name}: {best.method}, {reached}{said}."
