"""Commands `edgeopt quantize` and `compare-calibrations`: plans or single schemes, with proofs or reports."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from edgeopt.bundle.read import is_bundle, read_bundle
from edgeopt.errors import DataError, EdgeoptError, ModelError, UsageError
from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.accuracy import agreement
from edgeopt.graph.files.sniff import check_file
from edgeopt.pipeline.prove.quantized import finish, may_be_delivered
from edgeopt.quant.measured.planning.choosing import fastest, plan_configs
from edgeopt.quant.measured.planning.entry import GROUPED, Entry, settings_for, write_entry
from edgeopt.quant.measured.records import PLAN, Quantized, QuantizeRequest
from edgeopt.quant.measured.sample_sets import ModelRuns
from edgeopt.quant.measured.timing.configs import GROUPS, OPENVINO, ExecutionConfig, is_inexact
from edgeopt.quant.measured.timing.gains import ConfigGains
from edgeopt.quant.measured.work import QuantizeRun, check_request, prepare, unfit, why_none
from edgeopt.quant.records import (
    FLOAT,
    CalibrationTried,
    FrontierPoint,
    LayerVerdict,
    PrecisionPlan,
    Range,
    TargetSaid,
)
from edgeopt.quant.schemes import Scheme, scheme_named
from edgeopt.quant.schemes.base import SchemeContext
from edgeopt.quant.schemes.qdq import INT8
from edgeopt.workspace import WORK, workspace


def quantize_model(request: QuantizeRequest, emit: Emit = ignore) -> Quantized:
    """Quantizes a model; raises EdgeoptError for invalid inputs, while a result without gain is an answer.

    Whatever happens, nothing is left behind but the file that was asked for.
    """
    begin = time.monotonic()
    check_request(request)
    with workspace(WORK) as folder, ModelRuns() as runs:
        work = prepare(request, folder, runs, emit)
        found = planned(work) if request.method == PLAN else single(work)
        return msgspec.structs.replace(
            found,
            targets=_targets(work, found),
            warnings=tuple(work.warnings),
            phases_s=dict(work.study.phases_s),
            seconds=time.monotonic() - begin,
        )


def _targets(work: QuantizeRun, found: Quantized) -> tuple[TargetSaid, ...]:
    if not work.request.check_targets or not found.files:
        return ()
    from edgeopt.quant.provider_rules import check_targets

    written = Path(found.files[0].path)
    bundle = read_bundle(written) if is_bundle(written) else None
    with work.study.phase("checking targets", ", ".join(work.request.check_targets)):
        return check_targets(bundle.model if bundle is not None else written, work.request.check_targets)


_CLOSE_DB = 0.5
"""Difference in dB below which other samples may reverse the order."""


def _only_compared(request: QuantizeRequest, emit: Emit = ignore) -> Quantized:
    """Compares calibration methods for `edgeopt compare-calibrations`; writes nothing."""
    begin = time.monotonic()
    with workspace(WORK) as folder, ModelRuns() as runs:
        work = prepare(request, folder, runs, emit)
        rows = compared(work)
        return Quantized(
            "reported",
            _calibrations_summary(rows, len(work.sample_sets.plan)),
            str(request.model),
            INT8.name,
            _int8_config(work).backend,
            dict(_int8_config(work).options),
            request.shown_goal,
            calibrations=rows,
            warnings=tuple(work.warnings),
            seconds=time.monotonic() - begin,
            phases_s=dict(work.study.phases_s),
        )


def compared(work: QuantizeRun) -> tuple[CalibrationTried, ...]:
    """Returns the accuracy of int8 with each method's ranges, on the samples that plan; the best first."""
    from edgeopt.graph.model import save
    from edgeopt.quant.compare_calibrations import compare_calibrations
    from edgeopt.quant.write import tensors_wanted, write

    study, config = work.study, _int8_config(work)
    if not len(work.sample_sets.calibrate):
        raise DataError("There are no samples to calibrate with.", "Pass samples with --data.")
    path = work.folder / "calibrated.onnx"

    def judge(ranges: Mapping[str, Range]) -> tuple[float, float]:
        settings = study.known.settings
        context = SchemeContext(config.backend, settings, ranges)
        choices = {
            layer.name: INT8.name for layer in study.layers if not layer.reason and not INT8.fits(layer, context)
        }
        if not choices:
            raise ModelError(f"There is nothing to calibrate: {unfit(study.layers)}.")
        save(write(study.model, study.layers, choices, context).model, path)
        judged = work.judge.judged(path, config, work.sample_sets.plan)
        return judged.snr_db or judged.value, judged.low_db or judged.low

    tensors = tensors_wanted(study.model, study.layers, study.known.settings)
    if not tensors:
        raise ModelError(f"There is nothing to calibrate: {unfit(study.layers)}.", "See: edgeopt analyze MODEL")
    with study.phase("comparing calibrations", f"{len(tensors)} tensors"):
        return compare_calibrations(
            study.path,
            work.sample_sets.samples[work.sample_sets.calibrate],
            tensors,
            study.known.settings,
            work.emit,
            judge,
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


def checked(request: QuantizeRequest, emit: Emit = ignore) -> Quantized:
    """Checks the unchanged model for `edgeopt quantize MODEL --check-targets` without -o."""
    from edgeopt.quant.provider_rules import check_targets

    begin = time.monotonic()
    check_file(request.model)
    emit(Progress("checking targets", ", ".join(request.check_targets)))
    verdicts = check_targets(request.model, request.check_targets)
    return Quantized(
        "reported",
        _targets_summary(verdicts),
        str(request.model),
        "",
        "",
        {},
        request.shown_goal,
        targets=verdicts,
        seconds=time.monotonic() - begin,
    )


def _targets_summary(verdicts: tuple[TargetSaid, ...]) -> str:
    """Lists the targets by verdict, in the order in which the verdicts appear."""
    targets: dict[str, list[str]] = {}
    for row in verdicts:
        targets.setdefault(row.verdict, [])
        if row.target not in targets[row.verdict]:
            targets[row.verdict].append(row.target)
    return "; ".join(f"{verdict}: {', '.join(names)}" for verdict, names in targets.items()) + "."


def answer(request: QuantizeRequest, emit: Emit = ignore) -> Quantized:
    """Quantizes the model, or only examines it if nothing is to be written."""
    if request.compare_calibrations:
        return _only_compared(request, emit)
    if request.check_targets and request.out is None and not request.sensitivity:
        return checked(request, emit)

    return quantize_model(request, emit)


def single(work: QuantizeRun) -> Quantized:
    """Returns the fastest result that meets the goal, measured; if none does, the one that comes nearest."""
    scheme = scheme_named(work.request.method)
    if scheme.needs_ranges and not len(work.sample_sets.calibrate):
        raise DataError(
            f"The method {scheme.name} calibrates activation ranges on samples, but there are none.",
            "Give some with --data, or choose int8-dynamic, w8 or another method without calibration.",
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
    good = [each for each in entries if work.judge.met(each.proof)]
    best = fastest(work, good) if good else max(entries, key=lambda each: work.judge.score(each.proof))
    return finish(work, best)


def proved_entries(work: QuantizeRun, scheme: Scheme) -> tuple[list[Entry], list[str]]:
    """Writes and proves the scheme on each configuration; returns the entries, and reasons for the others."""
    if scheme.needs_ranges:
        work.study.calibrated()
    entries: list[Entry] = []
    reasons: list[str] = []
    for number, config in enumerate(_configs_for(work, scheme)):
        choices = _choices(work, scheme, config)
        if not choices:
            reasons.append(
                f"{config.name}: {why_none(work.study, scheme, config.backend, **settings_for(config))}"
            )
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
    if scheme.name == GROUPED:
        return tuple(
            config.having(**{GROUPS: work.study.known.settings.group_size})
            if config.backend == OPENVINO and GROUPS not in config.options
            else config
            for config in able
        )
    return able


def _choices(work: QuantizeRun, scheme: Scheme, config: ExecutionConfig) -> dict[str, str]:
    fitting = work.study.fitting_schemes(config.backend, (scheme,), **settings_for(config))
    return dict.fromkeys(fitting, scheme.name)


def _as_plan(work: QuantizeRun, scheme: Scheme, entry: Entry) -> PrecisionPlan:
    """Returns a single scheme in the form of a plan: a verdict for each layer, and one point."""
    proof = entry.proof
    context = work.study.context(entry.config.backend)
    verdicts = tuple(
        LayerVerdict(layer.name, scheme.name, f"{scheme.name}: requested")
        if layer.name in entry.choices
        else LayerVerdict(layer.name, FLOAT, f"kept float: {layer.reason or scheme.fits(layer, context)}")
        for layer in work.study.layers
    )
    point = FrontierPoint(
        dict(entry.choices),
        expected_ms=0.0,
        expected_db=proof.snr_db if proof else 0.0,
        snr_db=proof.snr_db if proof else None,
        low_db=proof.low_db if proof else None,
    )
    floor_db = work.request.goal.target_db
    return PrecisionPlan(
        entry.config.backend, dict(entry.config.options), floor_db or 0.0, point, (point,), verdicts
    )


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
    able_to_win = [each for each in (*entries, *rivals) if may_be_delivered(work, each)]
    best = fastest(work, _distinct(able_to_win)) if able_to_win else entries[0]
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
    proof, layers = entry.proof, work.study.layers
    verdicts = tuple(
        LayerVerdict(layer.name, precision, f"{precision}: like all float nodes on {entry.config.name}")
        for layer in layers
    )
    point = FrontierPoint({}, gains.timed.float_ms, proof.snr_db, proof.snr_db, proof.low_db)
    goal_db = work.request.goal.target_db or 0.0
    entry.plan = PrecisionPlan(
        entry.config.backend, dict(entry.config.options), goal_db, point, (point,), verdicts, base_db=gains.base_db
    )
    return entry


def _distinct(entries: Sequence[Entry]) -> list[Entry]:
    """Removes duplicates: a plan that chose nothing is the float model of its configuration."""
    found: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        found.setdefault((entry.config.name, str(entry.path)), entry)
    return list(found.values())
