"""Variants named `planned`: for each backend, the scheme of each layer that saves the most time for the least
error.

One study serves all backends. It reads the calibration samples and the check samples; the last part of the check
samples is held out from the plan and shows whether the plan holds on other data. The samples that prove the winner
are not read.
"""

import io
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from edgeopt.backends.base import Array
from edgeopt.data.judging.metric import Labels
from edgeopt.data.levels import Levels
from edgeopt.data.samples import Samples
from edgeopt.errors import EdgeoptError, ModelError
from edgeopt.graph.ledger import Change, LedgerEntry, Refusal
from edgeopt.hw.probe import probe
from edgeopt.pipeline.builders.inspect import describe
from edgeopt.pipeline.builders.messages import PLANNED, BuildTask, PlannedVariant, Plans
from edgeopt.quant.measured.planning.choosing import fastest, plan_configs
from edgeopt.quant.measured.planning.entry import GROUPED, Entry, options_for, step_of
from edgeopt.quant.measured.proof import Judge
from edgeopt.quant.measured.records import QuantizeRequest, SampleUse
from edgeopt.quant.measured.sample_sets import ModelRuns, SampleSets
from edgeopt.quant.measured.study import LayerMeasurements, begin
from edgeopt.quant.measured.timing.clock import Sources
from edgeopt.quant.measured.timing.configs import GROUP_SIZES, ExecutionConfig
from edgeopt.quant.measured.work import QuantizeRun, unfit, why_none
from edgeopt.quant.records import FLOAT, QuantSettings
from edgeopt.quant.schemes import Scheme, scheme_named
from edgeopt.quant.write import raised

if TYPE_CHECKING:
    import onnx_ir as ir


# With fewer check samples, the plan and its proof share them.
_FEWEST_TO_PART = 6


def studied(task: BuildTask, reference: Mapping[int, Mapping[str, Array]]) -> LayerMeasurements:
    """Begins the layer measurements of a task; `reference` has the source's outputs for plan and proof samples."""
    from edgeopt.graph.model import load

    model = raised(load(task.base).ir)
    folder = folder_of(task) / "study"
    return begin(model, sample_sets_for(task), reference, task.settings, folder)


def sample_sets_for(task: BuildTask) -> SampleSets:
    """Returns the sample sets: the first two thirds of the check samples plan, and the rest proves the plan."""
    from edgeopt.graph.model import load

    samples = samples_of(task)
    count, first, check = len(samples), len(samples) - len(task.check_samples), len(task.check_samples)
    held = check // 3 if check >= _FEWEST_TO_PART else 0
    plan_on = range(first, count - held)
    prove = range(count - held, count) if held else plan_on
    calibrate = range(len(task.calibration) if task.calibration is not None else 0)
    use = SampleUse(count, len(calibrate), len(plan_on), len(prove), shared=not held)
    inputs = describe(load(task.source)).inputs
    return SampleSets(inputs, samples, _labels(task), calibrate, plan_on, prove, use, Levels(samples))


def packed(labels: Labels | None) -> bytes:
    """Encodes labels, or whatever rows the user has instead, for another process."""
    file = io.BytesIO()
    if labels is not None:
        np.save(file, labels, allow_pickle=False)
    return file.getvalue()


def _labels(task: BuildTask) -> Labels | None:
    found = task.planning.labels if task.planning is not None else b""
    return np.load(io.BytesIO(found), allow_pickle=False) if found else None


def samples_of(task: BuildTask) -> Samples:
    """Returns the samples that calibrate and those that check, without the samples of the proof."""
    if task.samples is None:
        raise ModelError("Quantizing needs data.", "Pass samples with --data.")
    return task.samples


def folder_of(task: BuildTask) -> Path:
    """Returns the working folder of a task, which lies beside the task's output to be deleted with it."""
    folder = task.out.parent / "work"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def put(task: BuildTask, model: "ir.Model", backend: str) -> Path:
    """Writes a model into a folder of its own, as a bundle takes all that lies beside it."""
    from edgeopt.graph.model import save

    out = task.out.parent / backend / task.out.name
    out.parent.mkdir(parents=True)
    save(model, out)
    return out


# Share of the time after which no further backend is planned; plans are written after that.
_PLANNING_ENDS = 0.6
# Share of the time until which combinations of schemes are run; later ones are not considered.
_CHOOSING_ENDS = 1.0


def plan(task: BuildTask) -> Plans:
    """Writes a model for each backend where a plan saves time; reports the reason for the others."""
    begun = time.monotonic()
    with ModelRuns() as runs:
        work = _work(task, runs, begun)
        layers = work.study.layers
        if all(layer.reason for layer in layers):
            return Plans((), _backends(work.configs), f"No plan possible: {unfit(layers)}.")
        plans = plan_configs(work, _PLANNING_ENDS, begun + _CHOOSING_ENDS * work.limit_s)
        seen = _backends([gains.config for gains in plans.all_gains])
        if not plans.entries and not plans.unplanned:
            return Plans((), seen, _with_warnings(f"No gain: {plans.why_none}.", work))
        return _plans(task, work, plans.entries, tuple(name for name in seen if name not in plans.unplanned))


def _plans(task: BuildTask, work: QuantizeRun, entries: Sequence[Entry], seen: tuple[str, ...]) -> Plans:
    found: list[PlannedVariant] = []
    for backend in _backends([entry.config for entry in entries if not entry.is_float]):
        mine = [entry for entry in entries if entry.config.backend == backend and not entry.is_float]
        best = fastest(work, mine) if work.left_s() > 0 else mine[0]
        found.append(_written(task, work, best))
    if found:
        return Plans(tuple(found), seen)
    ledger = tuple(_ledger_entry(work, entry) for entry in entries[:1] if entry.plan is not None)
    goal = work.request.goal
    within = f"within {goal.floor:g} dB" if goal.is_ratio else f"so that the goal is met: {goal}"
    reason = f"No layer can be quantized {within}." if entries else "No plan was found in time."
    return Plans((), seen, _with_warnings(reason, work), ledger)


def _written(task: BuildTask, work: QuantizeRun, entry: Entry) -> PlannedVariant:
    from edgeopt.graph.model import load

    model = load(entry.path).ir
    out = put(task, model, entry.config.backend)
    ledger = msgspec.structs.replace(_ledger_entry(work, entry), nodes_after=len(list(model.graph)))
    assert entry.trace is not None  # noqa: S101 - one that is not float was written
    made_again = step_of(work.study, task.step.recipe, entry.choices, entry.trace)
    return PlannedVariant(entry.config.backend, entry.config.options, str(out), (ledger,), *made_again)


def _ledger_entry(work: QuantizeRun, entry: Entry) -> LedgerEntry:
    """Returns a ledger entry with the scheme of each layer and its reason."""
    assert entry.plan is not None  # noqa: S101 - a chooser's entries have one
    nodes = {layer.name: layer.nodes for layer in work.study.layers}
    verdicts = entry.plan.verdicts
    count = len(list(work.study.model.graph))
    proof = entry.proof
    return LedgerEntry(
        PLANNED,
        applied=tuple(Change(one.reason, nodes[one.layer]) for one in verdicts if one.scheme != FLOAT),
        refused=(
            *(Refusal(one.reason, nodes[one.layer]) for one in verdicts if one.scheme == FLOAT),
            *(Refusal(warning) for warning in work.warnings),
        ),
        nodes_before=count,
        nodes_after=count,
        seconds=time.monotonic() - work.begin_s,
        snr_db=proof.snr_db if proof is not None else entry.plan.chosen.snr_db,
        tolerance_db=work.request.goal.target_db,
    )


def _work(task: BuildTask, runs: ModelRuns, begun: float) -> QuantizeRun:
    """Returns the context of the quantization methods, made from what the search has prepared."""
    from edgeopt.data.samples import save_samples

    planning = task.planning
    if planning is None:
        raise ModelError("A plan needs a goal.", "This is a bug in edgeopt: please report it.")
    folder, samples = folder_of(task), samples_of(task)
    save_samples(samples, folder / "samples")
    sample_sets = sample_sets_for(task)
    runs.inputs(task.source)  # also chooses the backend that judges
    study = studied(task, runs.reference(task.source, sample_sets))
    goal = planning.goal
    request = QuantizeRequest(task.base, goal=goal, time_limit_s=planning.limit_s)
    return QuantizeRun(
        request=request,
        folder=folder,
        runs=runs,
        device=probe(),
        profile=planning.profile,
        configs=planning.configs,
        study=study,
        judge=Judge(study, runs, goal),
        emit=study.emit,
        begin_s=begun,
        limit_s=planning.limit_s,
        source_bytes=task.source.stat().st_size,
        sources=Sources(folder),
    )


def _backends(configs: Sequence[ExecutionConfig]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(config.backend for config in configs))


def _with_warnings(reason: str, work: QuantizeRun) -> str:
    return " ".join([reason, *work.warnings])


def apply_scheme(task: BuildTask, name: str) -> Plans:
    """Writes a model in one scheme for each backend; raises ModelError if no layer takes it on any."""
    begun = time.monotonic()
    scheme = scheme_named(name)
    study = studied(task, {})
    if scheme.needs_ranges:
        study.calibrated()
    found: list[PlannedVariant] = []
    reasons: dict[str, None] = {}
    for backend in task.backends:
        choices = study.uniform(scheme, backend, **_changes(scheme))
        if not choices:
            reasons[why_none(study, scheme, backend, **_changes(scheme))] = None
            continue
        try:
            found.append(_written_in_scheme(task, study, scheme, backend, choices, begun))
        except EdgeoptError as error:
            reasons[f"{backend}: {error.message.rstrip('.')}"] = None
    if not found:
        raise ModelError(f"No layer supports this scheme: {'; '.join(reasons)}.")
    return Plans(tuple(found), ())


def _written_in_scheme(
    task: BuildTask,
    study: LayerMeasurements,
    scheme: Scheme,
    backend: str,
    choices: Mapping[str, str],
    begun: float,
) -> PlannedVariant:
    written = study.written(choices, backend, **_changes(scheme))
    out = put(task, written.model, backend)
    against = study.reasons_against(scheme, backend, **_changes(scheme))
    ledger = LedgerEntry(
        scheme.name,
        applied=(*study.known.changes, *written.changes),
        refused=tuple(Refusal(against[one.name], one.nodes) for one in study.layers if one.name not in choices),
        nodes_before=len(list(study.model.graph)),
        nodes_after=len(list(written.model.graph)),
        seconds=time.monotonic() - begun,
    )
    options = options_for(ExecutionConfig(backend), choices)
    made_again = step_of(study, task.step.recipe, choices, written.trace)
    return PlannedVariant(backend, options, str(out), (ledger,), *made_again)


def _changes(scheme: Scheme) -> dict[str, int]:
    """Returns a block size that the groups of every size divide, so that one file serves all of them."""
    return {"block_size": max(QuantSettings().block_size, *GROUP_SIZES)} if scheme.name == GROUPED else {}
