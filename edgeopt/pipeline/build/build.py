"""The tasks of a worker that inspects models and makes variants."""

import time
from pathlib import Path

import msgspec

from edgeopt.backends.base import TensorInfo
from edgeopt.bundle.deployment import Step
from edgeopt.data.samples import check_samples, from_feeds, open_samples, save_samples
from edgeopt.graph.ledger import Ledger
from edgeopt.pipeline.build.cleaning import LOWERINGS, PASSES
from edgeopt.pipeline.build.messages import BuildTask, Inspect, Inspected, Made, Make, Plans
from edgeopt.pipeline.plans.recipes import recipe_named


def inspect_model(request: Inspect) -> Inspected:
    from edgeopt.data.regimes import mixed
    from edgeopt.graph.model import load
    from edgeopt.pipeline.build.inspect import describe

    model = load(Path(request.model_path))
    facts = describe(model)
    inputs = tuple(_narrowed(info, request.narrowed) for info in facts.inputs)
    feeds = mixed(inputs, model.ir, request.sample_count)
    save_samples(check_samples(from_feeds(feeds), inputs), Path(request.samples_path))
    return facts


def _narrowed(info: TensorInfo, narrowed: tuple[TensorInfo, ...]) -> TensorInfo:
    """With the sizes that are fixed elsewhere; its own names of axes say more than those of a runtime."""
    other = next((n for n in narrowed if n.name == info.name and len(n.shape) == len(info.shape)), info)
    shape = tuple(fixed if isinstance(fixed, int) else d for d, fixed in zip(info.shape, other.shape, strict=True))
    return msgspec.structs.replace(info, shape=shape)


def make_variant(request: Make) -> Made:
    begin = time.perf_counter()
    samples = open_samples(Path(request.samples_path))
    task = BuildTask(
        source=Path(request.source_path),
        base=Path(request.base_path),
        out=Path(request.out_path),
        check_samples=samples[range(request.check_first, request.check_first + request.check_count)],
        calibration=samples[range(request.calibration_count)] if request.calibration_count else None,
        settings=request.settings,
        step=request.step,
        backends=request.backends,
        samples=samples[range(request.check_first + request.check_count)],
        planning=request.planning,
        repair_floor_db=request.repair_floor_db,
    )
    made = recipe_named(request.recipe).make(task)
    seconds = time.perf_counter() - begin
    if isinstance(made, Plans):
        return Made(request.step, (), seconds, made)
    return Made(_as_done(request.step, made), tuple(made), seconds)


def _as_done(step: Step, ledger: Ledger) -> Step:
    """Without the passes that were rolled back, because they changed the numbers of this model."""
    undone = {entry.pass_name for entry in ledger if entry.rolled_back}
    # One that was taken back in one round may have done its work in another.
    undone -= {entry.pass_name for entry in ledger if not entry.rolled_back}
    kept = {name: [p for p in step.listed(name) if p not in undone] for name in (PASSES, LOWERINGS)}
    return Step(step.recipe, {name: kept.get(name, value) for name, value in step.parameters.items()})
