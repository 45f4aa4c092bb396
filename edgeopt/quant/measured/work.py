"""The steps of every method: checks of the request, the device, the data, the source's outputs, the study."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgeopt.backends.base import full_precision
from edgeopt.bundle.deployment import SUFFIX
from edgeopt.bundle.write import check_target, golden_places, write_golden_runs
from edgeopt.data.samples import save_samples
from edgeopt.errors import UsageError, VerificationError
from edgeopt.events import Emit, Log, Progress
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.files.sniff import check_file
from edgeopt.graph.unjudged import unjudged_outputs
from edgeopt.hw.device import Device
from edgeopt.hw.probe import probe
from edgeopt.measure.files import check_place
from edgeopt.nearest import nearest
from edgeopt.profiles import TargetProfile
from edgeopt.profiles.targets import profile_for
from edgeopt.quant.measured.proof import Judge
from edgeopt.quant.measured.records import METHODS, PLAN, QuantizeRequest
from edgeopt.quant.measured.sample_sets import ModelRuns, Outputs, SampleSets, read_samples
from edgeopt.quant.measured.study import LayerMeasurements, begin
from edgeopt.quant.measured.timing.clock import Sources
from edgeopt.quant.measured.timing.configs import ExecutionConfig, backends_for, configs_for, with_shapes
from edgeopt.quant.records import Layer, QuantSettings, settings_of
from edgeopt.quant.schemes import Scheme, scheme_named

if TYPE_CHECKING:
    import onnx_ir as ir

    from edgeopt.graph.model import Model

USUAL_LIMIT_S = 60.0
_LARGE_BYTES = 10_000_000
_S_A_BYTE = 0.4e-6
# Preparation changes the outputs only by rounding.
_EXACT_DB = 80.0
_MAX_TO_COMPARE = 4


@dataclass(slots=True)
class QuantizeRun:
    """One request in progress."""

    request: QuantizeRequest
    folder: Path
    runs: ModelRuns
    device: Device
    profile: TargetProfile
    configs: tuple[ExecutionConfig, ...]
    study: LayerMeasurements
    judge: Judge
    emit: Emit
    begin_s: float
    limit_s: float
    source_bytes: int
    sources: Sources
    source_digest: str = ""
    warnings: list[str] = field(default_factory=list)

    @property
    def sample_sets(self) -> SampleSets:
        return self.study.sample_sets

    @property
    def samples_path(self) -> Path:
        """The samples in the format that trials read."""
        return self.folder / "samples"

    def left_s(self, share: float = 1.0) -> float:
        """Returns the seconds until this share of the time limit has passed; negative if it has."""
        return self.begin_s + share * self.limit_s - time.monotonic()

    def warn(self, message: str) -> None:
        if message not in self.warnings:
            self.warnings.append(message)
            self.emit(Log("warning", message))


def check_request(request: QuantizeRequest) -> None:
    """Raises an error for an invalid request before any work begins."""
    if request.method not in METHODS:
        raise UsageError(f"There is no method '{request.method}'.", nearest(request.method, METHODS))
    check_file(request.model)
    if request.out is not None:
        _check_out(request.out, [request.model, *([request.data] if request.data is not None else [])])
    if request.samples is not None and request.samples < 1:
        raise UsageError("At least one sample must calibrate.", "Give --samples 1 or more, or leave it out.")


def _check_out(out: Path, sources: list[Path]) -> None:
    if out.suffix == SUFFIX:
        check_target(out.absolute(), sources)
        return
    if out.suffix != ".onnx":
        hint = f"Try -o {out.stem}.onnx, or -o {out.stem}{SUFFIX} for a bundle."
        raise UsageError(f"'{out}' does not end in .onnx or {SUFFIX}.", hint)
    check_place(out, "The model", sources)


def prepare(request: QuantizeRequest, folder: Path, runs: ModelRuns, emit: Emit) -> QuantizeRun:
    """Reads and checks the inputs of a request and prepares the float model; raises the first error."""
    from edgeopt.graph.model import load
    from edgeopt.graph.randomness import check_not_random

    begin_s = time.monotonic()
    device = probe()
    profile = profile_for(device, named=request.profile or None)
    configs = configs_for(backends_for(request.backend, profile), request.options, device)
    emit(Progress("reading the model", request.model.name))
    model = load(request.model)
    check_not_random(model.ir, "Export it in eval mode, or without these operators.")
    inputs = runs.inputs(request.model)
    emit(Progress("reading the data", request.data.name if request.data is not None else "made up"))
    calibrates = request.method == PLAN or scheme_named(request.method).needs_ranges
    sets = read_samples(request, inputs, profile.data, calibrates, runs)
    configs = tuple(with_shapes(config, inputs, sets.samples) for config in configs)
    save_samples(sets.samples, folder / "samples")
    emit(Progress("running the source model", f"{len(sets.judged)} samples"))
    reference = runs.reference(request.model, sets)
    if not request.goal.is_ratio:
        # An error in the metric or the labels must show now, not after the long work.
        answers = list(reference.values())
        request.goal.judge(answers, answers, None if sets.labels is None else sets.labels[sets.judged])
    emit(Progress("preparing the model", request.model.name))
    ready = prepared(model, request)
    study = begin(ready, sets, reference, _settings(profile, request), folder / "study", request.keep_float, emit)
    judge = Judge(study, runs, request.goal)
    size = request.model.stat().st_size + sum(file.stat().st_size for file in model.external)
    limit_s = request.time_limit_s or USUAL_LIMIT_S + _S_A_BYTE * max(0, size - _LARGE_BYTES)
    work = QuantizeRun(
        request,
        folder,
        runs,
        device,
        profile,
        configs,
        study,
        judge,
        emit,
        begin_s,
        limit_s,
        size,
        Sources(folder),
        model.digest,
    )
    check_prepared(study, runs)
    study.phases_s["preparing"] = time.monotonic() - begin_s
    _warn_of_the_data(work)
    return work


def prepared(model: "Model", request: QuantizeRequest) -> "ir.Model":
    """Returns the prepared float model from which all others are made."""
    from edgeopt.graph.passes import PassContext
    from edgeopt.graph.pipeline import run_pipeline
    from edgeopt.quant.write import raised

    context = PassContext(shapes=request.shapes)
    return raised(run_pipeline(model, only=passes_of(request), context=context).model_ir)


def passes_of(request: QuantizeRequest) -> tuple[str, ...]:
    """Returns the names of the passes that prepare the model."""
    from edgeopt.graph.passes import standard_passes
    from edgeopt.graph.pipeline import select

    return tuple(one.name for one in select(standard_passes(), also=("fix-shapes",) if request.shapes else ()))


def _settings(profile: TargetProfile, request: QuantizeRequest) -> QuantSettings:
    settings = settings_of(profile.quantization)
    return msgspec.structs.replace(settings, calibration=request.calibration or settings.calibration)


def check_prepared(study: LayerMeasurements, runs: ModelRuns) -> None:
    """Raises a VerificationError if the outputs of the prepared model differ from the source's."""
    sets, judge = study.sample_sets, runs.judge
    few = sets.plan[:_MAX_TO_COMPARE]
    got = runs.outputs(study.path, judge, full_precision(judge), sets.feeds(few))
    accuracy = compare_outputs(study.reference_of(few), got)
    if accuracy.problem or accuracy.snr_db < _EXACT_DB:
        raise VerificationError(
            f"The prepared model differs from the source ({accuracy.problem or f'{accuracy.snr_db:.1f} dB'}).",
            "This is a bug in edgeopt; `edgeopt simplify --bisect` finds the pass.",
        )


def _warn_of_the_data(work: QuantizeRun) -> None:
    sets = work.sample_sets
    if sets.use.generated:
        work.warn(
            "No data: accuracy is judged on generated inputs (ordinary, silent, quiet, sparse and "
            "others), which says little, and schemes that calibrate are skipped. Pass samples with "
            "--data."
        )
    for warning in sets.warnings:
        work.warn(warning)
    answers = list(work.study.reference.values())
    if sets.labels is not None:
        judged = work.request.goal.judge(answers, answers, sets.labels[sets.judged])
        for warning in work.request.goal.label_warnings(judged, sets.labels):
            work.warn(warning)
    for warning in unjudged_outputs(answers):
        work.warn(warning)


def put_golden(folder: Path, study: LayerMeasurements, run: Callable[[Sequence[int]], Outputs]) -> Outputs:
    """Writes a few of the samples that prove into a bundle, with the outputs of both models; returns its own."""
    sets = study.sample_sets
    some = [sets.prove[k] for k in golden_places(len(sets.prove))]
    outputs = run(some)
    write_golden_runs(folder, sets.feeds(some), outputs, study.reference_of(some))
    return outputs


def why_none(study: LayerMeasurements, scheme: Scheme, backend: str, **changes: int) -> str:
    """Returns the reason that no layer fits a scheme, as the end of a sentence; `changes` replace settings."""
    reasons = dict.fromkeys(study.reasons_against(scheme, backend, **changes).values())
    return "; ".join([each for each in reasons if each][:3]) or unfit(study.layers)


def unfit(layers: tuple[Layer, ...]) -> str:
    """Returns the reason that a model has no layer to quantize, as the end of a sentence."""
    if not layers:
        return "it has no product with weights (Conv, MatMul, Gemm)"
    reasons = Counter(layer.reason for layer in layers if layer.reason)
    text = "; ".join(f"{count} of them: {reason}" for reason, count in reasons.most_common(3))
    return f"none of its {len(layers)} layers can be quantized ({text})" if text else "no scheme fits its layers"
