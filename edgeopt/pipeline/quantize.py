"""Commands `edgeopt quantize` and `compare-calibrations`: plans or single schemes, with proofs or reports."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from edgeopt.bundle.read import is_bundle, read_bundle
from edgeopt.errors import DataError, EdgeoptError, ModelError, UsageError
from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.accuracy import agreement
from edgeopt.pipeline.prove.quantized import finish, may_be_delivered
from edgeopt.quant.measured.planning.choosing import fastest, plan_configs
from edgeopt.quant.measured.planning.entry import Entry, config_with, precision_plan, settings_for, write_entry
from edgeopt.quant.measured.records import PLAN, Quantized, QuantizeRequest
from edgeopt.quant.measured.sample_sets import ModelRuns
from edgeopt.quant.measured.timing.configs import ExecutionConfig, is_inexact
from edgeopt.quant.measured.timing.gains import ConfigGains
from edgeopt.quant.measured.work import QuantizeRun, check_request, prepare, unfit, why_none
from edgeopt.quant.records import (
    FLOAT,
    CalibrationTried,
    FrontierPoint,
    LayerVerdict,
    PrecisionPlan,
    Range,
    TargetVerdict,
)
from edgeopt.quant.schemes import Scheme, scheme_named
from edgeopt.quant.schemes.qdq import INT8
from edgeopt.workspace import WORK, workspace


def quantize_model(request: QuantizeRequest, emit: Emit = ignore) -> Quantized:
    """Quantizes a model, or only examines it if nothing is to be written.

    Raises EdgeoptError for invalid inputs, while a result without gain is an answer. Whatever happens, nothing is
    left behind but the file that was asked for.
    """
    begin = time.monotonic()
    check_request(request)
    if request.check_targets and request.out is None and not request.sensitivity:
        return _with_time(_checked(request, emit), begin)
    with workspace(WORK) as folder, ModelRuns() as runs:
        work = prepare(request, folder, runs, emit)
        if request.compare_calibrations:
            found = _compared(work)
        else:
            found = planned(work) if request.method == PLAN else single(work)
        found = msgspec.structs.replace(
            found,
            targets=_targets(work, found),
            warnings=tuple(work.warnings),
            phases_s=dict(work.study.phases_s),
        )
        return _with_time(found, begin)


def _with_time(found: Quantized, begin_s: float) -> Quantized:
    return msgspec.structs.replace(found, seconds=time.monotonic() - begin_s)


def _targets(work: QuantizeRun, found: Quantized) -> tuple[TargetVerdict, ...]:
    if not work.request.check_targets or not found.files:
        return ()
    from edgeopt.quant.provider_rules import check_targets

    written = Path(found.files[0].path)
    bundle = read_bundle(written) if is_bundle(written) else None
    with work.study.phase("checking targets", ", ".join(work.request.check_targets)):
        return check_targets(bundle.model if bundle is not None else written, work.request.check_targets)


_CLOSE_DB = 0.5
"""Difference in dB below which other samples may reverse the order."""


def _compared(work: QuantizeRun) -> Quantized:
    """Compares the calibration methods by the accuracy of int8 on the samples that plan; writes nothing."""
    from edgeopt.quant.compare_calibrations import compare_calibrations
    from edgeopt.quant.write import tensors_wanted

    study, config = work.study, _int8_config(work)
    calibrate, plan = work.sample_sets.calibrate, work.sample_sets.plan
    if not len(calibrate):
        raise DataError("There are no samples to calibrate with.", "Pass samples with --data.")
    path = work.folder / "calibrated.onnx"

    def judge(ranges: Mapping[str, Range]) -> tuple[float, float]:
        study.known = msgspec.structs.replace(study.known, ranges=dict(ranges))
        choices = study.uniform(INT8, config.backend)
        if not choices:
            raise ModelError(f"There is nothing to calibrate: {unfit(study.layers)}.")
        study.save_written(choices, config.backend, path)
        judged = work.judge.judged(path, config, plan)
        return judged.snr_db or judged.value, judged.low_db or judged.low

    settings = study.known.settings
    tensors = tensors_wanted(study.model, study.layers, settings)
    if not tensors:
        raise ModelError(f"There is nothing to calibrate: {unfit(study.layers)}.", "See: edgeopt analyze MODEL")
    with study.phase("comparing calibrations", f"{len(tensors)} tensors"):
        samples = work.sample_sets.samples[calibrate]
        rows = compare_calibrations(study.path, samples, tensors, settings, work.emit, judge)
    return Quantized(
        *("reported", _calibrations_summary(rows, len(plan)), str(work.request.model), INT8.name),
        *(config.backend, dict(config.options), work.request.shown_goal),
        calibrations=rows,
    )


def _int8_config(work: QuantizeRun) -> ExecutionConfig:
    """Returns an available configuration on which int8 gains, or the first one."""
    return next((each for each in work.configs if each.backend in INT8.backends), work.configs[0])


def _calibrations_summary(rows: tuple[CalibrationTried, ...], samples: int) -> str:
    best = rows[0]
    if best.snr_db is None:
        return f"The most accurate calibration, tensor by tensor: {best.method}."
    near = [row.method for row in rows[1:] if row.snr_db is not None and best.snr_db - row.snr_db < _CLOSE_DB]
    ties = f"; {', '.join(near)} {('is' if len(near) == 1 else 'are')} equally accurate" if near else ""
    reached = f"{agreement(best.snr_db)} on {samples} samples"
    return f"The most accurate calibration of {INT8.name}: {best.method}, {reached}{ties}."


def _checked(request: QuantizeRequest, emit: Emit) -> Quantized:
    """Checks the unchanged model for `edgeopt quantize MODEL --check-targets` without -o."""
    from edgeopt.quant.provider_rules import check_targets

    emit(Progress("checking targets", ", ".join(request.check_targets)))
    verdicts = check_targets(request.model, request.check_targets)
    summary, model = _targets_summary(verdicts), str(request.model)
    return Quantized("reported", summary, model, "", "", {}, request.shown_goal, targets=verdicts)


def _targets_summary(verdicts: tuple[TargetVerdict, ...]) -> str:
    """Lists the targets by verdict, in the order in which the verdicts appear."""
    targets: dict[str, list[str]] = {}
    for row in verdicts:
        targets.setdefault(row.verdict, [])
        if row.target not in targets[row.verdict]:
            targets[row.verdict].append(row.target)
    return "; ".join(f"{verdict}: {', '.join(names)}" for verdict, names in targets.items()) + "."


def single(work: QuantizeRun) -> Quantized:
    """Returns the fastest result that meets the goal, measured; if none does, the one that comes nearest."""
    scheme = scheme_named(work.request.method)
    if scheme.needs_ranges and not len(work.sample_sets.calibrate):
        raise DataError(
            f"The method {scheme.name} calibrates activation ranges on samples, but there are none.",
            "Pass samples with --data, or choose int8-dynamic, w8 or another method without calibration.",
        )
    entries, reasons = proved_entries(work, scheme)
    if not entries:
        text = " ".join(f"{reason.rstrip('.')}." for reason in reasons)
        raise UsageError(
            f"The method {scheme.name} cannot be used on this model. {text}",
            "Choose another method, or let `--method plan` choose a scheme for each layer.",
        )
    for reason in reasons:
        work.warn(f"Skipped: {reason}")
    return finish(work, _best(work, entries))


def _best(work: QuantizeRun, entries: Sequence[Entry]) -> Entry:
    """Returns the fastest entry that may be delivered; if none may be, the one that comes nearest to the goal."""
    able = _distinct([each for each in entries if may_be_delivered(work, each)])
    return fastest(work, able) if able else max(entries, key=lambda each: work.judge.score(each.proof))


def proved_entries(work: QuantizeRun, scheme: Scheme) -> tuple[list[Entry], list[str]]:
    """Writes and proves the scheme on each configuration; returns the entries, and reasons for the others."""
    if scheme.needs_ranges:
        work.study.calibrated()
    entries: list[Entry] = []
    reasons: list[str] = []
    for number, config in enumerate(_configs_for(work, scheme)):
        choices = work.study.uniform(scheme, config.backend, **settings_for(config))
        if not choices:
            why = why_none(work.study, scheme, config.backend, **settings_for(config))
            reasons.append(f"{config.name}: {why}")
            continue
        work.emit(Progress("writing", f"{scheme.name} for {config.name}"))
        try:
            entry = write_entry(work.study, config, choices, work.folder / f"single-{number}.onnx")
            entry.proof = work.judge.proof(entry.path, entry.config)
        except EdgeoptError as error:
            reasons.append(f"{config.name}: {error.message}")
            continue
        entry.plan = _as_plan(work, scheme, entry)
        entries.append(entry)
    return entries, reasons


def _configs_for(work: QuantizeRun, scheme: Scheme) -> tuple[ExecutionConfig, ...]:
    """Returns the configurations on which the scheme gains; if there are none, all, with a warning."""
    able = tuple(config for config in work.configs if config.backend in scheme.backends)
    if not able:
        names = ", ".join(dict.fromkeys(config.backend for config in work.configs))
        work.warn(
            f"No available backend computes {scheme.name} faster than float ({names}); it is written anyway."
        )
        able = work.configs
    return tuple(config_with(config, scheme.name, work.study.known.settings) for config in able)


def _as_plan(work: QuantizeRun, scheme: Scheme, entry: Entry) -> PrecisionPlan:
    """Returns a single scheme in the form of a plan: a verdict for each layer, and one point."""
    proof = entry.proof
    against = work.study.reasons_against(scheme, entry.config.backend, **settings_for(entry.config))
    verdicts = tuple(
        LayerVerdict(name, scheme.name, f"{scheme.name}: requested")
        if name in entry.choices
        else LayerVerdict(name, FLOAT, f"kept float: {reason}")
        for name, reason in against.items()
    )
    reached = (0.0, None, None) if proof is None else (proof.snr_db, proof.snr_db, proof.low_db)
    return precision_plan(entry, work.request.goal, FrontierPoint(dict(entry.choices), 0.0, *reached), verdicts)


_PLANNING_ENDS = 0.7
_FLOAT_COULD_WIN = 1.3


def planned(work: QuantizeRun) -> Quantized:
    """Plans each configuration, proves each plan, and races the proven ones against each other."""
    study = work.study
    floats = [Entry(config, {}, study.path) for config in work.configs]
    if all(layer.reason for layer in study.layers):
        return finish(work, floats[0], why=f"Keep float: {unfit(study.layers)}.")
    plans = plan_configs(work, _PLANNING_ENDS)
    entries = plans.entries
    if plans.error is not None and not entries:
        raise plans.error
    rivals = [each for entry in floats if (each := _float_rival(work, entry, plans.all_gains)) is not None]
    if not entries and not any(is_inexact(each.config) for each in rivals):
        return finish(work, floats[0], why=f"Keep float: {plans.why_none}.")
    best = _best(work, [*entries, *rivals])
    if best.plan is None and entries:
        # If float is fastest, the frontier still shows what a plan would have cost and saved.
        best.plan, best.proof = entries[0].plan, entries[0].proof
    return finish(work, best)


def _float_rival(work: QuantizeRun, entry: Entry, all_gains: Sequence[ConfigGains]) -> Entry | None:
    """Returns the float model if its kernels come near the best: a plan must beat it there too.

    Floats that are rounded are a plan of their own, in which all layers have that precision.
    """
    key = entry.config.backend, entry.config.options.get("precision")
    gains = next((t for t in all_gains if (t.config.backend, t.config.options.get("precision")) == key), None)
    if gains is None or gains.timed.float_ms >= _FLOAT_COULD_WIN * min(each.best_ms for each in all_gains):
        return None
    if not is_inexact(entry.config):
        return entry
    with work.study.phase("proving", entry.config.name):
        entry.proof = work.judge.proof(entry.path, entry.config)
    if not work.judge.met(entry.proof):
        return None
    precision = str(key[1])
    proof, why = entry.proof, f"{precision}: like all float nodes on {entry.config.name}"
    verdicts = tuple(LayerVerdict(layer.name, precision, why) for layer in work.study.layers)
    point = FrontierPoint({}, gains.timed.float_ms, proof.snr_db, proof.snr_db, proof.low_db)
    plan = precision_plan(entry, work.request.goal, point, verdicts)
    entry.plan = msgspec.structs.replace(plan, base_db=gains.base_db)
    return entry


def _distinct(entries: Sequence[Entry]) -> list[Entry]:
    """Removes duplicates: a plan that chose nothing is the float model of its configuration."""
    found: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        found.setdefault((entry.config.name, str(entry.path)), entry)
    return list(found.values())
