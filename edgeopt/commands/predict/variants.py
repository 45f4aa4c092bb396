"""Variants for an absent device, prepared, made and judged here: their accuracy is real."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgeopt.backends import PROCESSOR
from edgeopt.backends.base import Array, full_precision
from edgeopt.commands.predict.record import DeviceRecord, OnDevice, on_device, read_record, stand_in
from edgeopt.data.judging.goals import Goal, floor_from
from edgeopt.data.judging.metric import Judged
from edgeopt.errors import EdgeoptError
from edgeopt.events import Emit, Log, Progress
from edgeopt.graph.accuracy import decibels
from edgeopt.graph.ledger import Ledger, LedgerEntry
from edgeopt.graph.model import Model, load
from edgeopt.hw.device import Device
from edgeopt.pipeline.outcome import Candidate
from edgeopt.pipeline.request import OptimizeRequest
from edgeopt.profiles import TargetProfile
from edgeopt.profiles.targets import profile_for, without_planned
from edgeopt.quant.inventory import inventory_of
from edgeopt.quant.measured.planning.entry import config_with, settings_for, share_of, write_entry
from edgeopt.quant.measured.records import QuantizeRequest
from edgeopt.quant.measured.sample_sets import ModelRuns, SampleSets, read_samples
from edgeopt.quant.measured.study import LayerMeasurements, begin
from edgeopt.quant.measured.timing.configs import ExecutionConfig
from edgeopt.quant.measured.work import check_prepared, why_none
from edgeopt.quant.provider_rules import FAILS, FALLS_BACK, computed_factors, findings
from edgeopt.quant.records import settings_of
from edgeopt.quant.schemes import Scheme
from edgeopt.quant.write import raised

if TYPE_CHECKING:
    import onnx_ir as ir

    from edgeopt.quant.write import Trace


DYNAMIC = "int8-dynamic"
# What multiplies bytes and adds in 32 bits.
_FAST = frozenset({"avx512-vnni", "avx-vnni", "avx-vnni-int8", "amx-int8", "dotprod", "i8mm"})
# A scheme that covers less of the work gains little, and still needs conversions.
_WORTH_IT = 0.25


@dataclass(frozen=True, slots=True)
class PredictionContext:
    study: LayerMeasurements
    runs: ModelRuns
    floor_db: float
    device: Device
    profile: TargetProfile

    def outputs(self, made: "PredictedVariant", which: Sequence[int]) -> list[dict[str, Array]]:
        feeds = self.study.sample_sets.feeds(which)
        own = made.judged_with == made.candidate.backend
        options = made.candidate.options if own else full_precision(made.judged_with)
        return self.runs.outputs(made.path, made.judged_with, options, feeds)

    def judged(self, made: "PredictedVariant", which: range) -> Judged:
        """Judges a variant's answers against the source's, on the level of input where they differ most."""
        return self.study.judge(Goal(floor=self.floor_db, budget=""), self.outputs(made, which), which)


@dataclass(slots=True)
class PredictedVariant:
    """A candidate with its file, and what was seen of it here."""

    candidate: Candidate
    path: Path
    ledger: Ledger = ()
    layers: dict[str, list[str]] = field(default_factory=dict)
    trace: "Trace | None" = None
    """Trace with which the schemes were written, for a replay."""
    accuracy_db: float | None = None
    accuracy_low_db: float | None = None
    failure: str = ""
    """Reason why the variant is rejected, as the end of a sentence."""
    below: bool = False
    """Whether the variant is rejected for its accuracy."""
    doubt: str = ""
    """Reason why the variant may gain nothing on the device, though it has fewer bits."""
    notes: list[str] = field(default_factory=list)

    @property
    def judged_with(self) -> str:
        return stand_in(self.candidate.backend)

    @property
    def is_alive(self) -> bool:
        return not self.failure


def write_variant(
    bench: PredictionContext, scheme: Scheme, candidate: Candidate, folder: Path, cleaning: Ledger
) -> PredictedVariant:
    """Writes the scheme in every layer that fits; below the floor, the layers that cost most stay float."""
    config = config_with(
        ExecutionConfig(candidate.backend, candidate.options), scheme.name, bench.study.known.settings
    )
    made = PredictedVariant(msgspec.structs.replace(candidate, options=config.options), folder / "model.onnx")
    choices = bench.study.uniform(scheme, candidate.backend, **settings_for(config))
    if scheme.name == DYNAMIC:
        # onnxruntime's own guide: dynamic for matrices, static for convolutions. ConvInteger has slow kernels.
        convs = {layer.name for layer in bench.study.layers if layer.operator.startswith("Conv")}
        choices = {name: scheme.name for name in choices if name not in convs}
    if not choices:
        why = why_none(bench.study, scheme, config.backend, **settings_for(config))
        made.failure = f"no layer takes the form: {why}"
        return made
    folder.mkdir(parents=True)
    kept = ""
    for floats in _fewer(bench, scheme, config, choices):
        mine = {layer: name for layer, name in choices.items() if layer not in floats}
        made.failure, made.below = "", False
        kept = f"{len(floats)} of {len(choices)} layers kept float for the floor" if floats else ""
        try:
            entry = write_entry(bench.study, config, mine, made.path)
            made.candidate = Candidate(scheme.name, candidate.backend, dict(entry.config.options))
            judge(bench, made)
        except EdgeoptError as error:
            made.failure = error.message.rstrip(".")
        if not made.below:
            break
    if made.is_alive:
        made.layers, made.trace = {scheme.name: list(mine)}, entry.trace
        made.doubt = _doubt(bench, scheme, candidate.backend, share_of(bench.study.layers, mine))
        made.notes += [kept] if kept else []
        made.ledger = (*cleaning, LedgerEntry(scheme.name, applied=entry.changes))
        _add_device_findings(bench, made)
    return made


def judge(bench: PredictionContext, made: PredictedVariant) -> None:
    """Holds its answers on samples that calibration never saw against the source's."""
    found = bench.judged(made, bench.study.sample_sets.plan)
    if found.problem:
        made.failure = found.problem.rstrip(".")
        return
    made.accuracy_db, made.accuracy_low_db = found.snr_db, found.low_db
    if found.low < bench.floor_db:
        made.below = True
        where = f": {found.weakest.where}" if found.weakest is not None else ""
        made.failure = f"{decibels(found.value)}, on other samples perhaps {found.low:.1f} dB{where}"


def _fewer(
    bench: PredictionContext, scheme: Scheme, config: ExecutionConfig, choices: dict[str, str]
) -> Iterator[frozenset[str]]:
    """Yields layers to keep float: none, then those that use more than their share of the floor, then more."""
    yield frozenset()
    fitting = dict.fromkeys(choices, (scheme.name,))
    found = bench.study.sensitivities(config.backend, fitting, bench.floor_db, **settings_for(config))
    work = {layer.name: max(1, layer.multiply_adds) for layer in bench.study.layers}
    # The most error for the least work first.
    order = sorted(found, key=lambda one: -sum(one.noise) / work[one.layer])
    noise = {one.layer: max(one.noise, default=0.0) for one in order}
    for margin_db in (3.0, 6.0):
        allowed = 10 ** (-(bench.floor_db + margin_db) / 10)
        left, back = sum(noise.values()), []
        for one in order:
            if left <= allowed:
                break
            left -= noise[one.layer]
            back.append(one.layer)
        if back and len(back) < len(order):
            yield frozenset(back)


def _doubt(bench: PredictionContext, scheme: Scheme, backend: str, share: float) -> str:
    if share < _WORTH_IT:
        return f"it reaches {share:.1%} of the products only"
    slow = backend in PROCESSOR and scheme.name.startswith("int8") and not _FAST & set(bench.device.cpu.simd)
    return "this processor has no instruction for products of bytes" if slow else ""


def _add_device_findings(bench: PredictionContext, made: PredictedVariant) -> None:
    """Adds failures and notes on what only the device and its provider would do to the file."""
    from edgeopt.graph.model import load

    model = load(made.path).ir
    file = inventory_of(model)
    architecture = bench.device.host.architecture
    for rule in findings(made.candidate.backend, (architecture,), file):
        if rule.verdict == FAILS:
            made.failure = rule.reason.rstrip(".")
            return
        if rule.verdict == FALLS_BACK:
            made.notes.append(rule.reason.rstrip("."))
    on_x86 = architecture in {"x86_64", "i686"} and made.candidate.backend.endswith("-cpu")
    if not (on_x86 and bench.profile.quantization.reduce_range):
        return
    if file.wide_products:
        made.failure = f"pairs of products may overflow 16 bits there ('{file.wide_products[0]}')"
        made.below = True
    elif factors := computed_factors(file):
        made.notes.append(factors.rstrip("."))


@dataclass(slots=True)
class PredictionPlan:
    wishes: OptimizeRequest
    record: DeviceRecord
    profile: TargetProfile
    backends: OnDevice
    source: Model
    sample_sets: SampleSets
    bench: PredictionContext
    emit: Emit
    warnings: list[str]
    cleaning: Ledger = ()

    def warn(self, message: str) -> None:
        self.warnings.append(message)
        self.emit(Log("warning", message))


def prepared(wishes: OptimizeRequest, device: Path, folder: Path, runs: ModelRuns, emit: Emit) -> PredictionPlan:
    record = read_record(device)
    profile = without_planned(profile_for(record.device, wishes.target, wishes.profile))
    emit(Progress("reading the model", wishes.model.name))
    source = load(wishes.model)
    floor_db = floor_from(wishes.floor or "transparent")
    request = QuantizeRequest(wishes.model, data=wishes.data, pre=wishes.pre, goal=Goal(floor=floor_db, budget=""))
    sample_sets = read_samples(request, runs.inputs(wishes.model), profile.data, calibrates=False, runs=runs)
    emit(Progress("running the source model", f"{len(sample_sets.judged)} samples"))
    reference = runs.reference(wishes.model, sample_sets)
    emit(Progress("cleaning", wishes.model.name))
    cleaned, ledger = _cleaned(source, profile)
    settings = settings_of(profile.quantization)
    study = begin(cleaned, sample_sets, reference, settings, folder / "study")
    bench = PredictionContext(study, runs, floor_db, record.device, profile)
    backends = on_device(profile, record.device)
    plan = PredictionPlan(wishes, record, profile, backends, source, sample_sets, bench, emit, [], ledger)
    check_prepared(study, runs)
    _warn(plan)
    return plan


def _cleaned(source: Model, profile: TargetProfile) -> "tuple[ir.Model, Ledger]":
    """Applies the exact passes of the profile, and raises the model to an opset that has all schemes."""
    from edgeopt.graph.pipeline import run_pipeline

    listed = profile.graph.passes
    found = run_pipeline(source, only=() if isinstance(listed, str) else listed)
    model = raised(found.model_ir)
    applied = tuple(entry for entry in found.ledger if entry.applied)
    return model, applied


def _warn(plan: PredictionPlan) -> None:
    for name, reason in plan.backends.absent.items():
        if plan.backends.assumed and name in PROCESSOR:
            continue
        plan.warn(f"Skipped the backend {name}: {reason}.")
    if plan.backends.assumed:
        first = plan.backends.order[0]
        plan.warn(
            f"The record names no runtime that the target {plan.profile.name} uses, so the plan is for {first}, "
            "which must be installed on the device."
        )
    for backend in plan.backends.order:
        if stand_in(backend) != backend:
            plan.warn(f"{backend} is not available here, so accuracy is judged with {stand_in(backend)}.")
    if plan.sample_sets.use.generated:
        plan.warn("No data: only exact rewrites and float precisions are planned, on generated inputs.")
    elif plan.sample_sets.use.shared:
        plan.warn(f"{plan.sample_sets.use.given} samples are too few for 8-bit variants, which need 12.")
    for warning in plan.sample_sets.warnings:
        plan.warn(warning)
