"""Recipes, and the build requests that each makes of a search's model."""

import importlib.util
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from edgeopt import units
from edgeopt.bundle.deployment import Step
from edgeopt.data.samples import open_samples
from edgeopt.data.split import Split
from edgeopt.graph.ledger import Ledger
from edgeopt.pipeline.builders.cleaning import LOWERINGS, NONE_LISTED, PASSES, Lowered, lowered_variants
from edgeopt.pipeline.builders.messages import (
    CLEANED,
    MAPPED,
    PLANNED,
    PLUGIN,
    REPAIRED,
    BuildTask,
    Made,
    Make,
    Planning,
    Plans,
)
from edgeopt.pipeline.plans.plugin_recipes import plugin_recipes
from edgeopt.pipeline.plans.precision import recipe_of
from edgeopt.pipeline.plans.recipe import Recipe
from edgeopt.profiles import TargetProfile, schema
from edgeopt.quant.records import settings_of
from edgeopt.quant.schemes import SCHEMES


def _loaded(place: str) -> Recipe:
    module, _, name = place.partition(":")
    recipe: Recipe = getattr(import_module(f"edgeopt.pipeline.plans.{module}"), name)
    return recipe


_MAPPED_BYTES = 4_000_000
"""Minimum size of a model whose weights are worth a file of their own."""

RECIPES = (*map(_loaded, schema.RECIPES.values()), *map(recipe_of, SCHEMES))
"""Recipes in the order in which they are built."""


def place_of(name: str) -> int:
    """Returns the place of a recipe in the list: simple ones come first, those of plug-ins last."""
    return next((place for place, one in enumerate(RECIPES) if one.name == name), len(RECIPES))


def recipe_named(name: str) -> Recipe:
    found = next((r for r in RECIPES if r.name == name), None)
    return found or next(r for r in plugin_recipes() if r.name == name)


@dataclass(frozen=True, slots=True)
class BuildInputs:
    """Inputs from which all variants of one search are made."""

    model: Path
    size_bytes: int
    samples_path: Path
    """Samples of one size, while those of the trials may be of several."""
    split: Split
    of_user: bool
    """Whether the samples are the user's, not generated."""
    profile: TargetProfile
    kept: float
    """Share of the places in the data that are not padding."""
    passes: tuple[str, ...]
    operators: Mapping[str, int]
    """Number of nodes of each operator in the model."""
    folder: Path
    """Folder of the variants, each in a folder of its own."""
    saves_memory: bool = False
    """Whether the search minimizes or limits memory."""
    has_cache: bool = False
    """Whether the model is a decoder with a cache."""


def why_not(recipe: Recipe, inputs: BuildInputs) -> str:
    """Returns why the recipe cannot be made here; empty if it can."""
    if recipe.offer is not None and recipe.offer.problem:
        return recipe.offer.problem
    if recipe.of_decoders and not inputs.has_cache:
        return "gains only in a decoder with a cache, where each token waits for the weights"
    if inputs.has_cache and recipe.name in {PLANNED, REPAIRED}:
        return "not supported for a decoder with a cache: its layers are not chosen one by one"
    if inputs.has_cache and recipe.calibrates:
        return "not supported for a decoder with a cache: ranges of activations are not calibrated"
    if recipe.name == MAPPED and inputs.size_bytes < _MAPPED_BYTES:
        return f"the model has only {units.size(inputs.size_bytes)}"
    if recipe.needs_data and not inputs.of_user:
        return "needs data to calibrate or to check it"
    if recipe.needs_data and not inputs.split.calibration_count:
        return "too few samples to calibrate and check on different ones"
    if unsuited := recipe.unsuited(inputs.operators):
        return unsuited
    if inputs.split.is_shared and recipe.name == PLANNED and inputs.of_user:
        return "too few samples to plan and prove on different ones; give 12 or more"
    if recipe.by_backend and not lowered_variants(inputs.profile):
        return NONE_LISTED
    if not backends_of(recipe, inputs.profile):
        return "no backend of the profile computes it faster than float"
    missing = [package for package in recipe.needs if importlib.util.find_spec(package) is None]
    return f"the Python package '{missing[0]}' is not installed" if missing else ""


def backends_of(recipe: Recipe, profile: TargetProfile) -> tuple[str, ...]:
    """Returns the backends of the profile that the recipe is for."""
    return tuple(name for name in profile.backends.order if recipe.runs_on(name))


def jobs(inputs: BuildInputs, name: str, base_of: Callable[[str], Path]) -> list[Make]:
    """Returns one job, or one for each group of backends; `base_of` gives the model a backend's starts from."""
    recipe = recipe_named(name)
    if recipe.by_backend:
        return [job(inputs, name, base_of(one.backends[0]), one) for one in lowered_variants(inputs.profile)]
    groups = by_base(backends_of(recipe, inputs.profile), base_of)
    if len(groups) == 1:
        return [job(inputs, name, base) for base in groups]
    return [job(inputs, name, base, backends=backends) for base, backends in groups.items()]


def by_base(backends: Iterable[str], base_of: Callable[[str], Path]) -> dict[Path, tuple[str, ...]]:
    """Groups the backends by the file they start from; most often all are in one group."""
    groups: dict[Path, tuple[str, ...]] = {}
    for backend in dict.fromkeys(backends):
        groups[base_of(backend)] = (*groups.get(base_of(backend), ()), backend)
    return groups


def job(
    inputs: BuildInputs,
    name: str,
    base: Path,
    lowered: Lowered | None = None,
    planning: Planning | None = None,
    repair_floor_db: float | None = None,
    backends: tuple[str, ...] = (),
) -> Make:
    """Creates a job; `backends` are those that it is made for, if others have a variant of the same name."""
    folder = inputs.folder / (f"{name}-{backends[0]}" if backends else name)
    split, recipe = inputs.split, recipe_named(name)
    out = (folder / lowered.backends[0] if lowered else folder) / recipe.file
    out.parent.mkdir(parents=True)
    quantization = settings_of(inputs.profile.quantization)
    uniform = backends_of(recipe, inputs.profile) if recipe.uniform else ()
    return Make(
        step=_step(inputs, name, lowered),
        source_path=str(inputs.model.absolute()),
        base_path=str(base.absolute()),
        out_path=str(out),
        samples_path=str(inputs.samples_path),
        check_first=split.check_first,
        check_count=split.check_count,
        calibration_count=split.calibration_count,
        settings=quantization,
        backends=lowered.backends if lowered else backends or uniform,
        planning=planning,
        repair_floor_db=repair_floor_db,
    )


def _step(inputs: BuildInputs, name: str, lowered: Lowered | None) -> Step:
    if lowered is not None:
        return Step(name, {LOWERINGS: [*dict.fromkeys(lowered.lowerings)]})
    offer = recipe_named(name).offer
    if offer is not None:
        return Step(name, {PLUGIN: offer.source})
    return Step(name, {PASSES: list(inputs.passes)} if name == CLEANED else {})


def title_of(job: Make) -> str:
    lowerings = job.step.listed(LOWERINGS)
    return Lowered(job.backends, lowerings).title if lowerings else recipe_named(job.recipe).title


def make_variant(request: Make) -> Made:
    """Makes one variant in a worker process by running one step on the model."""
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
    """Returns the step without the passes that were rolled back because they changed this model's outputs."""
    undone = {entry.pass_name for entry in ledger if entry.rolled_back}
    # A pass that was rolled back in one round may have been applied in another.
    undone -= {entry.pass_name for entry in ledger if not entry.rolled_back}
    kept = {name: [p for p in step.listed(name) if p not in undone] for name in (PASSES, LOWERINGS)}
    return Step(step.recipe, {name: kept.get(name, value) for name, value in step.parameters.items()})
