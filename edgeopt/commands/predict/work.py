"""What a plan for a device that is not here begins with: the record, the profile, the cleaned model, samples."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgeopt.backends.base import full_precision
from edgeopt.commands.predict.backends import PROCESSOR, OnDevice, on_device, stand_in
from edgeopt.commands.predict.record import Record, read_record
from edgeopt.commands.predict.variants import EXACT_DB, Bench
from edgeopt.data.judging.goals import Goal
from edgeopt.errors import VerificationError
from edgeopt.events import Emit, Log, Progress
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.ledger import Ledger
from edgeopt.graph.model import Model, load
from edgeopt.profiles import TargetProfile
from edgeopt.profiles.targets import profile_for, without_planned
from edgeopt.quant.measured.given import Given, Runs, read_given
from edgeopt.quant.measured.records import QuantizeRequest
from edgeopt.quant.measured.study import begin
from edgeopt.quant.records import QuantSettings
from edgeopt.quant.write import raised

if TYPE_CHECKING:
    import onnx_ir as ir

_MOST_TO_COMPARE = 4


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user asked for; paths are checked."""

    model: Path
    out: Path
    device: Path
    data: Path | None
    floor_db: float
    target: str | None
    profile: str | Path | None
    single_file: bool


@dataclass(slots=True)
class Plan:
    """What is known while it is made."""

    wishes: Wishes
    record: Record
    profile: TargetProfile
    backends: OnDevice
    source: Model
    given: Given
    bench: Bench
    emit: Emit
    warnings: list[str]
    cleaning: Ledger = ()

    def warn(self, message: str) -> None:
        self.warnings.append(message)
        self.emit(Log("warning", message))


def prepared(wishes: Wishes, folder: Path, runs: Runs, emit: Emit) -> Plan:
    record = read_record(wishes.device)
    profile = without_planned(profile_for(record.device, wishes.target, wishes.profile))
    emit(Progress("reading the model", wishes.model.name))
    source = load(wishes.model)
    request = QuantizeRequest(wishes.model, data=wishes.data, goal=Goal(floor=wishes.floor_db, budget=""))
    given = read_given(request, runs.inputs(wishes.model), profile.data, calibrates=False)
    wanted = sorted({*given.plan, *given.prove})
    emit(Progress("running the source model", f"{len(wanted)} samples"))
    answers = runs.source_outputs(wishes.model, [given.samples.feeds(k) for k in wanted])
    reference = dict(zip(wanted, answers, strict=True))
    emit(Progress("cleaning", wishes.model.name))
    cleaned, ledger = _cleaned(source, profile)
    settings = msgspec.convert(msgspec.to_builtins(profile.quantization), QuantSettings)
    study = begin(cleaned, given, reference, settings, folder / "study")
    bench = Bench(study, runs, wishes.floor_db, record.device, profile)
    backends = on_device(profile, record.device)
    plan = Plan(wishes, record, profile, backends, source, given, bench, emit, [], ledger)
    _check_cleaned(plan)
    _warn(plan)
    return plan


def _cleaned(source: Model, profile: TargetProfile) -> "tuple[ir.Model, Ledger]":
    """After the exact passes of the profile, in an opset that forms can be written in."""
    from edgeopt.graph.pipeline import run_pipeline

    listed = profile.graph.passes
    found = run_pipeline(source, only=() if isinstance(listed, str) else listed)
    model = raised(found.model_ir)
    applied = tuple(entry for entry in found.ledger if entry.applied)
    return model, applied


def _check_cleaned(plan: Plan) -> None:
    given, study = plan.given, plan.bench.study
    few = range(given.plan.start, min(given.plan.stop, given.plan.start + _MOST_TO_COMPARE))
    judge = plan.bench.runs.judge
    got = plan.bench.runs.outputs(study.path, judge, full_precision(judge), given.feeds(few))
    accuracy = compare_outputs(study.reference_of(few), got)
    if accuracy.problem or accuracy.snr_db < EXACT_DB:
        raise VerificationError(
            f"The cleaned model differs from the source ({accuracy.problem or f'{accuracy.snr_db:.1f} dB'}).",
            "This is a bug in edgeopt; `edgeopt simplify --bisect` finds the pass.",
        )


def _warn(plan: Plan) -> None:
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
    if plan.given.use.generated:
        plan.warn("No data: only exact rewrites and float precisions are planned, on generated inputs.")
    elif plan.given.use.shared:
        plan.warn(f"{plan.given.use.given} samples are too few for 8-bit variants, which need 12.")
    for warning in plan.given.warnings:
        plan.warn(warning)
