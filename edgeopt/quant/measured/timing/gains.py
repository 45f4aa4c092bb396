"""The gains of each scheme of each layer, from kernel times of the model in float and in one scheme."""

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from edgeopt.backends import backend_named
from edgeopt.backends.base import Feeds
from edgeopt.errors import EdgeoptError
from edgeopt.events import Emit, Log, Progress, ignore
from edgeopt.graph.accuracy import EQUAL_DB, SILENT_POWER, Accuracy, compare_outputs
from edgeopt.graph.analysis import Analysis, OpTimeRow
from edgeopt.graph.analysis.roofline import LowerBound, minimum
from edgeopt.hw.device import Device
from edgeopt.measure.kernel_times import OptionValue
from edgeopt.measure.rounds import take_turns
from edgeopt.measure.schedules import LAYERS
from edgeopt.quant.measured.planning.entry import GROUPED, WEIGHTS_ALONE, settings_for
from edgeopt.quant.measured.study import LayerMeasurements, schemes_for
from edgeopt.quant.measured.timing.clock import KernelClock, Lap, Sources
from edgeopt.quant.measured.timing.configs import (
    CONVERSIONS,
    GROUP_SIZES,
    GROUPS,
    OPENVINO,
    ExecutionConfig,
    Territory,
    is_inexact,
    label_of,
    territory_of,
)
from edgeopt.quant.measured.work import QuantizeRun
from edgeopt.quant.plan.solve import Border
from edgeopt.quant.records import Layer, LayerGain
from edgeopt.quant.schemes import Scheme
from edgeopt.workspace import WORK, workspace

PHASE = "timing the layers"
_RUNS, _LIMIT_S = 40, 0.5
# If no conversion was timed: five bytes per value at the memory bandwidth of one core.
_CONVERSION_MS_A_VALUE = 0.5e-6
# Without measured peaks: multiplications per millisecond of one core, and the assumed speedup of eight bits.
_PRODUCTS_PER_MS, _EIGHT_BITS = 20e6, 2.0
_STATIC = "int8"
_PRECISIONS = {"bf16": "bf16", "fp16": "fp16", "w8": "fp32", "w4": "fp32"}


@dataclass(frozen=True, slots=True)
class TimedKernels:
    """Gains of the layers, with the times that they are derived from."""

    gains: tuple[LayerGain, ...]
    float_ms: float
    """Time of all kernels of the float model."""
    scheme_ms: Mapping[str, float] = field(default_factory=dict)
    """Time of all kernels with all layers in one scheme, by scheme."""
    warnings: tuple[str, ...] = ()
    borders: tuple[Border, ...] = ()
    """Costs of converting between two consecutive layers if one of them is float."""


@dataclass(slots=True)
class _Member:
    """The model in one scheme; the float model has an empty name."""

    scheme: str
    laps: list[Lap] = field(default_factory=list)
    laps_taken: int = 0
    failure: str | None = None


def time_schemes(  # noqa: PLR0913, PLR0917 - the models, where they run, and the device
    float_path: Path,
    written: Mapping[str, Path],
    layers: Sequence[Layer],
    backend: str,
    options: Mapping[str, OptionValue],
    feeds: Feeds,
    emit: Emit = ignore,
    device: Device | None = None,
    until: float | None = None,
    sources: Sources | None = None,
) -> TimedKernels:
    """Returns the gains, measured if the backend reports kernel times, otherwise estimated from the roofline.

    Repetitions after the first are skipped once `until`, on the monotonic clock, has passed.
    """
    shapes = {name: tuple(array.shape) for name, array in feeds.items()}
    with ExitStack() as stack:
        sources = sources or Sources(stack.enter_context(workspace(WORK)))
        emit(Progress(PHASE, f"preparing the models for {backend}"))
        known = {scheme: sources.of(path, shapes) for scheme, path in {"": float_path, **written}.items()}
        analyses = {scheme: analysis for scheme, (_, analysis) in known.items()}
        if backend_named(backend).op_times is None:
            reason = "its runtime does not report the time of single kernels"
            return _estimated(layers, tuple(written), analyses[""], device, reason)
        clock = stack.enter_context(KernelClock(backend, options, feeds, _RUNS, _LIMIT_S))
        members = [_Member(scheme) for scheme in known]

        def lap_of(member: _Member) -> Lap | None:
            if member.laps and until is not None and time.monotonic() > until:
                return None
            done = sum(each.laps_taken for each in members)
            member.laps_taken += 1
            emit(Progress(PHASE, f"{member.scheme or 'float'} on {backend}", done, LAYERS.maximum * len(known)))
            lap = clock.lap(*known[member.scheme])
            member.failure = None if lap.rows else lap.reason
            return lap if lap.rows else None

        for each in take_turns(members, LAYERS, lap_of):
            for member, lap in each.taken:
                member.laps.append(lap)
    times = {member.scheme: member.laps for member in members}
    reasons = {member.scheme: member.failure for member in members if member.failure is not None}
    if not times[""]:
        return _estimated(layers, tuple(written), analyses[""], device, reasons[""])
    warnings = tuple(
        f"The kernels of the model in {scheme} could not be measured on {backend}: {reason.rstrip('.')}."
        for scheme, reason in reasons.items()
    )
    return _measured(
        analyses, times, layers, tuple(scheme for scheme in written if times[scheme]), warnings, backend
    )


def _measured(
    analyses: Mapping[str, Analysis],
    times: Mapping[str, Sequence[Lap]],
    layers: Sequence[Layer],
    schemes: tuple[str, ...],
    warnings: tuple[str, ...],
    backend: str,
) -> TimedKernels:
    home = territory_of(analyses[""].nodes, layers)
    float_ms = _least_disturbed([_shared_out(each, home) for each in times[""]])
    sizes = _sizes(analyses[""])
    found: list[LayerGain] = []
    borders: tuple[Border, ...] = ()
    for scheme in schemes:
        there = territory_of(analyses[scheme].nodes, layers, home)
        scheme_ms = _least_disturbed([_shared_out(each, there) for each in times[scheme]])
        changed = _changed(analyses[scheme], layers)
        rate = (
            None if backend_named(backend).converts_within else _conversion_rate(times[scheme], analyses[scheme])
        )
        converted = _converted(analyses[scheme], times[scheme])
        for layer in layers:
            if layer.name not in changed:
                continue
            border = [name for name in (*layer.inputs, *layer.outputs) if name not in converted]
            found.append(
                LayerGain(
                    layer.name,
                    scheme,
                    float_ms.get(layer.name, 0.0),
                    scheme_ms.get(layer.name, 0.0),
                    rate * sum(sizes.get(name, 0) for name in border) if rate is not None else 0.0,
                )
            )
        if rate is not None and scheme == _STATIC:
            borders = _borders(analyses[""], home, layers, rate)
    totals = {scheme: min(each.kernels_ms for each in times[scheme]) for scheme in ("", *schemes)}
    return TimedKernels(tuple(found), totals.pop(""), totals, warnings, borders)


def _borders(analysis: Analysis, home: Territory, layers: Sequence[Layer], rate: float) -> tuple[Border, ...]:
    """Returns the border between each layer and the layers that own the nodes which compute its inputs."""
    sizes = _sizes(analysis)
    makers = {tensor.name: label_of(row) for row in analysis.nodes for tensor in row.outputs if tensor.name}
    return tuple(
        Border(before, layer.name, rate * sizes.get(name, 0))
        for layer in layers
        for name in layer.inputs
        for before in home.owners.get(makers.get(name, ""), {})
    )


def _shared_out(times: Lap, territory: Territory) -> dict[str, float]:
    """Returns the time of each layer."""
    found: dict[str, float] = defaultdict(float)
    for row in times.rows:
        for layer, share in territory.of(row).items():
            found[layer] += share * row.time_ms
    return found


def _least_disturbed(turns: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Returns the shortest time of each layer, because other processes can only make a kernel slower."""
    names = {name for turn in turns for name in turn}
    return {name: min(turn[name] for turn in turns if name in turn) for name in names}


def _changed(analysis: Analysis, layers: Sequence[Layer]) -> set[str]:
    """Returns the layers that a scheme has changed: another operator, other factors or other weights."""
    rows = {label_of(row): row for row in analysis.nodes}
    found = set()
    for layer in layers:
        for label in layer.nodes:
            row = rows.get(label)
            reads = () if row is None else tuple(tensor.name for tensor in row.inputs)
            same = row is not None and row.operator == layer.operator
            if not same or (layer.weight and layer.weight not in reads) or not set(layer.inputs) & set(reads):
                found.add(layer.name)
    return found


def _sizes(analysis: Analysis) -> dict[str, int]:
    """Returns the number of values of each tensor, from its shape or from the bytes that its node writes."""
    found: dict[str, int] = {}
    for row in analysis.nodes:
        for tensor in (*row.inputs, *row.outputs):
            if tensor.shape is not None and all(isinstance(d, int) for d in tensor.shape):
                found[tensor.name] = _product([d for d in tensor.shape if isinstance(d, int)])
        if len(row.outputs) == 1 and row.cost.written_bytes and row.outputs[0].dtype == "float32":
            found[row.outputs[0].name] = row.cost.written_bytes // 4
    return found


def _product(sizes: Sequence[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product


def _conversions(times: Lap, analysis: Analysis) -> list[tuple[OpTimeRow, list[str]]]:
    """Returns the kernels that only convert, each with the tensors before and after its conversions."""
    rows = {label_of(row): row for row in analysis.nodes}
    found = []
    for row in times.rows:
        made = [rows[label] for label in row.members if label in rows]
        if made and not row.added and all(each.operator in CONVERSIONS for each in made):
            found.append((row, [tensor.name for each in made for tensor in (*each.inputs[:1], *each.outputs[:1])]))
    return found


def _conversion_rate(turns: Sequence[Lap], analysis: Analysis) -> float:
    """Returns the milliseconds per converted value."""
    sizes = _sizes(analysis)
    for node in analysis.nodes:  # eight-bit tensors too
        if node.operator in CONVERSIONS and node.inputs and node.inputs[0].name in sizes:
            sizes.setdefault(node.outputs[0].name, sizes[node.inputs[0].name])
    least_ms: dict[str, tuple[float, int]] = {}
    for times in turns:
        for row, names in _conversions(times, analysis):
            values = max(sizes.get(name, 0) for name in names)
            if values:
                least_ms[row.kernel] = (min(row.time_ms, least_ms.get(row.kernel, (row.time_ms, 0))[0]), values)
    if least_ms:
        return sum(ms for ms, _ in least_ms.values()) / sum(values for _, values in least_ms.values())
    return _CONVERSION_MS_A_VALUE


def _converted(analysis: Analysis, turns: Sequence[Lap]) -> set[str]:
    """Returns the tensors that the model in this scheme converts, which the layers' times already include."""
    return {name for _, names in _conversions(turns[0], analysis) for name in names}


def _estimated(
    layers: Sequence[Layer], schemes: tuple[str, ...], analysis: Analysis, device: Device | None, reason: str
) -> TimedKernels:
    """Estimates the gains from the operations and bytes of each layer and the device's peaks."""
    rows = {label_of(row): row for row in analysis.nodes}
    found: list[LayerGain] = []
    total = 0.0
    for layer in layers:
        cost = [rows[label].cost for label in layer.nodes if label in rows]
        operations = sum(each.operations or 0 for each in cost) or 2 * layer.multiply_adds
        moved = sum((each.read_bytes or 0) + (each.written_bytes or 0) for each in cost)
        float_ms = _min_ms(device, "fp32", operations, moved)
        total += float_ms
        if layer.reason:
            continue
        for scheme in schemes:
            precision = _PRECISIONS.get(scheme, "int8")
            smaller = moved // (2 if precision in {"bf16", "fp16"} else 4)
            scheme_ms = _min_ms(device, precision, operations, smaller)
            found.append(LayerGain(layer.name, scheme, float_ms, scheme_ms, basis="estimated"))
    warning = (
        f"The gains of the layers are estimated, because their kernels could not be timed: {reason.rstrip('.')}."
    )
    return TimedKernels(tuple(found), total, {}, (warning,))


def _min_ms(device: Device | None, precision: str, operations: int, moved: int) -> float:
    if device is not None:
        best = minimum(device, precision, device.limits.usable_cores, operations, moved)
        if isinstance(best, LowerBound):
            return best.time_s * 1e3
    return operations / 2 / _PRODUCTS_PER_MS / (1.0 if precision == "fp32" else _EIGHT_BITS)


# Shares of the time limit after which no further configuration is timed, and none a second time.
_TIMING_ENDS, _SECOND_TURN_ENDS = 0.5, 0.3
# A gap that a few float layers close, at less cost than smaller groups for all layers.
_GIVEN_BACK_DB = 2.0
# The largest gain of groups of 32 over groups of 128, in decibels.
_OUT_OF_REACH_DB = 4.0
# A weight with at most this many uses per run takes longer to read than to multiply.
_FEW_USES = 8
# Relative differences between two timings of the same model, for the sum of its layers and for one layer.
_MIN_OF_ALL, _MIN_OF_LAYER = 0.03, 0.05


@dataclass(frozen=True, slots=True)
class ConfigGains:
    """Gains of one configuration, from which a plan is made."""

    config: ExecutionConfig
    timed: TimedKernels
    schemes: Mapping[str, tuple[str, ...]]
    """Schemes that may save time there, by layer."""
    base_db: float | None = None
    """Signal-to-noise ratio of the float model if the backend rounds floats; None if it does not."""
    base: tuple[float, ...] = ()
    """The noise of the float model at each output, as a ratio to the signal."""

    @property
    def best_ms(self) -> float:
        """Expected time with every layer in its fastest scheme, whatever the error."""
        saves: dict[str, float] = {}
        for gain in self.timed.gains:
            saves[gain.layer] = max(saves.get(gain.layer, 0.0), gain.saves_ms)
        return max(0.0, self.timed.float_ms - sum(saves.values()))


def measure_gains(work: QuantizeRun) -> list[ConfigGains]:
    """Returns the configurations that fit a layer and whose floats meet the goal, the fastest best case first."""
    found: list[ConfigGains] = []
    for config in work.configs:
        if found and work.left_s(_TIMING_ENDS) < 0:
            work.warn(f"{config.name} was skipped within the time limit; a longer one includes it.")
            continue
        try:
            gains = _measure_gains(work, config)
        except EdgeoptError as error:
            work.warn(f"{config.name} was skipped: {error.message}")
            continue
        if gains is not None:
            found.append(gains)
    return sorted(found, key=lambda gains: gains.best_ms)


def _measure_gains(work: QuantizeRun, config: ExecutionConfig) -> ConfigGains | None:
    base_db: float | None = None
    base: tuple[float, ...] = ()
    if is_inexact(config):
        accuracy, met = _floats(work, config)
        base_db, base = accuracy.snr_db, noise_of(accuracy)
        if not met:
            reason = (
                f"float itself reaches only {base_db:.1f} dB there"
                if base_db > -EQUAL_DB
                else "the outputs of the float model there cannot be compared with the source's"
            )
            work.emit(Log("info", f"{config.name} is skipped: {reason}."))
            return None
    schemes = schemes_for(config.backend, bool(work.study.known.ranges))
    settled = _grouped(work, config, schemes)
    fitting = _fitting(work, settled, schemes)
    if not fitting:
        return None
    timed = _timed(work, settled, fitting)
    if base_db is None and all(gain.basis == "estimated" for gain in timed.gains):
        _floats(work, config)  # raises if the runtime cannot run the model: an estimate alone does not show that
    for warning in timed.warnings:
        work.warn(warning)
    return ConfigGains(settled, timed, worth(timed), base_db, base)


def _fitting(
    work: QuantizeRun, config: ExecutionConfig, schemes: tuple[Scheme, ...]
) -> dict[str, tuple[str, ...]]:
    """Returns the schemes to try for each layer, by layer.

    Schemes for weights alone are included only for layers that use each weight a few times per run, which memory
    limits, and not beside groups, because OpenVINO has one option for the whole model.
    """
    fitting = work.study.fitting_schemes(config.backend, schemes, **settings_for(config))
    few = {layer.name for layer in work.study.layers if layer.multiply_adds <= _FEW_USES * layer.parameters}
    grouped = bool(config.options.get(GROUPS))
    return {
        name: kept
        for name, some in fitting.items()
        if (kept := tuple(f for f in some if f not in WEIGHTS_ALONE or (name in few and not grouped)))
    }


def _floats(work: QuantizeRun, config: ExecutionConfig) -> tuple[Accuracy, bool]:
    """Returns the accuracy of the float model on the planning samples, and whether it meets the goal."""
    sets, study, goal = work.sample_sets, work.study, work.request.goal
    got = work.runs.outputs(study.path, config.backend, config.options, sets.feeds(sets.plan))
    met = goal.met(study.judge(goal, got, sets.plan))
    return compare_outputs(study.reference_of(sets.plan), got), met


def noise_of(accuracy: Accuracy) -> tuple[float, ...]:
    """Returns the noise at each output as a ratio to the signal."""
    return tuple(
        math.inf if output.problem else sum(output.noise_power) / max(sum(output.signal_power), SILENT_POWER)
        for output in accuracy.outputs
    )


def _grouped(work: QuantizeRun, config: ExecutionConfig, schemes: tuple[Scheme, ...]) -> ExecutionConfig:
    """Returns the configuration with the largest (fastest) groups with which all layers nearly meet the goal."""
    grouped = next((scheme for scheme in schemes if scheme.name == GROUPED), None)
    if grouped is None or config.backend != OPENVINO or GROUPS in config.options:
        return config
    if not work.study.fitting_schemes(config.backend, (grouped,)):
        return config
    goal, tried = work.request.goal, config
    for size in GROUP_SIZES:
        before, tried = tried, config.having(**{GROUPS: size})
        work.emit(Progress(PHASE, f"groups of {size} on {config.name}"))
        try:
            fitting = work.study.fitting_schemes(config.backend, (grouped,), **settings_for(tried))
            path = _uniform(work, tried, GROUPED, fitting)
            judged = work.judge.judged(path, tried, work.sample_sets.plan)
        except EdgeoptError as error:
            work.emit(Log("info", f"Groups of {size} do not run on {config.name}: {error.message}"))
            return before
        if goal.met(judged) or (goal.is_ratio and goal.needed - goal.score(judged)[1] <= _GIVEN_BACK_DB):
            return tried
        if goal.is_ratio and goal.needed - goal.score(judged)[1] > _OUT_OF_REACH_DB:
            return config.having(**{GROUPS: GROUP_SIZES[-1]})
    return tried


def _uniform(
    work: QuantizeRun, config: ExecutionConfig, scheme: str, fitting: Mapping[str, tuple[str, ...]]
) -> Path:
    """Returns the file with one scheme on all layers that it fits, shared by a backend's configurations."""
    path = work.folder / f"all-{config.backend}-{scheme}-{config.options.get(GROUPS, '')}.onnx"
    if not path.exists():
        choices = {layer: scheme for layer, schemes in fitting.items() if scheme in schemes}
        work.study.save_written(choices, config.backend, path, **settings_for(config))
    return path


def _timed(work: QuantizeRun, config: ExecutionConfig, fitting: Mapping[str, tuple[str, ...]]) -> TimedKernels:
    """Times each scheme on all layers that it fits, compared with float."""
    study = work.study
    written: dict[str, Path] = {}
    for scheme in dict.fromkeys(scheme for schemes in fitting.values() for scheme in schemes):
        try:
            written[scheme] = _uniform(work, config, scheme, fitting)
        except EdgeoptError as error:
            work.warn(f"The scheme {scheme} is skipped on {config.backend}: {error.message}")
    feeds = work.sample_sets.samples.feeds(work.sample_sets.plan.start)
    with study.phase(PHASE, config.name):
        return time_schemes(
            *(study.path, written, study.layers, config.backend, config.options, feeds, work.emit, work.device),
            until=work.begin_s + _SECOND_TURN_ENDS * work.limit_s,
            sources=work.sources,
        )


def worth(timed: TimedKernels) -> dict[str, tuple[str, ...]]:
    """Returns the schemes of each layer that save more than repeated timings of one model differ, by layer.

    A scheme that saves next to nothing on all layers together is dropped; a scheme may be slower on a single layer
    if conversions to its neighbours fall away.
    """
    saved: dict[str, float] = {}
    for gain in timed.gains:
        saved[gain.scheme] = saved.get(gain.scheme, 0.0) + max(0.0, gain.saves_ms)
    found: dict[str, list[str]] = {}
    for gain in timed.gains:
        if saved[gain.scheme] < _MIN_OF_ALL * timed.float_ms:
            continue
        if gain.saves_ms + gain.boundary_ms > _MIN_OF_LAYER * gain.float_ms:
            found.setdefault(gain.layer, []).append(gain.scheme)
    return {layer: tuple(schemes) for layer, schemes in found.items()}


def unfit_reasons(study: LayerMeasurements, gains: ConfigGains) -> dict[str, str]:
    """Returns the reason that a layer has no scheme there, as the end of a sentence, by layer.

    A layer that some scheme fits was tried in it, so what keeps it from others is no reason.
    """
    config = gains.config
    schemes = schemes_for(config.backend, bool(study.known.ranges))
    against = [study.reasons_against(scheme, config.backend, **settings_for(config)) for scheme in schemes]
    found = {}
    for layer in study.layers:
        if layer.name not in gains.schemes:
            reasons = [each[layer.name] for each in against]
            fits = not reasons or not all(reasons)
            found[layer.name] = "it is not faster in any scheme here" if fits else reasons[0]
    return found
