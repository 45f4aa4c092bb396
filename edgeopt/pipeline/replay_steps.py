"""Repetition of a deployment profile's steps: cleans the source model, lowers it, and applies its schemes."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgeopt.bundle.deployment import Step
from edgeopt.bundle.profile import Profile, model_place
from edgeopt.decoding import thread_safe
from edgeopt.errors import BundleError, UsageError
from edgeopt.events import Emit, Progress
from edgeopt.graph.ledger import Ledger
from edgeopt.graph.passes import Pass, PassContext, standard_passes
from edgeopt.graph.passes.base import plural
from edgeopt.graph.pipeline import ROUNDS, run_pipeline, select
from edgeopt.quant.schemes import scheme_named

if TYPE_CHECKING:
    from edgeopt.graph.model import Model
    from edgeopt.quant.records import QuantSettings
    from edgeopt.quant.write import Recorded

_AGAIN = "Run `edgeopt optimize` to make a new bundle with this version."


@dataclass(frozen=True, slots=True)
class _Bench:
    """Step to repeat: the model it starts from, and the path of its result."""

    step: Step
    base: "Model"
    out: Path
    profile: Profile


def rebuild(profile: Profile, source: "Model", folder: Path, work: Path, emit: Emit) -> Ledger:
    """Writes the model of a bundle into its folder; returns the ledger of the passes.

    Raises BundleError for a step that cannot be done again.
    """
    from edgeopt.graph.model import load

    out = folder / model_place(profile.deployment)
    out.parent.mkdir(parents=True)
    steps = profile.deployment.steps
    if not steps:
        shutil.copyfile(source.path, out)
        for file in source.external:
            place = out.parent / file.relative_to(source.path.parent)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
        return ()
    ledger: list[Ledger] = []
    base = source
    for number, step in enumerate(steps):
        emit(Progress("replaying", describe_step(step), number, len(steps)))
        last = number + 1 == len(steps)
        place = out if last else work / f"step-{number}" / out.name
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            ledger.append(_maker_of(step)(_Bench(step, base, place, profile)))
        except UsageError as error:
            raise _not_again(step, error) from None
        base = base if last else load(place)
    return tuple(entry for part in ledger for entry in part)


def check_steps(profile: Profile) -> None:
    """Raises BundleError for a step that cannot be repeated, as far as that is known without running it."""
    for step in profile.deployment.steps:
        maker = _maker_of(step)
        try:
            if maker is _cleaned:
                select(standard_passes(), only=step.listed("passes"))
            for scheme in step.forms:
                scheme_named(scheme)
        except UsageError as error:
            raise _not_again(step, error) from None
        if maker is _quantized:
            _checked_record(profile)
            _settings_of(step)


def describe_step(step: Step) -> str:
    if step.forms:
        parts = ", ".join(f"{plural(len(layers), 'layer')} in {scheme}" for scheme, layers in step.forms.items())
        return f"{step.recipe}: {parts}"
    counts = {name: len(value) for name, value in step.parameters.items() if isinstance(value, list)}
    parts = ", ".join(f"{count} {name}" for name, count in counts.items())
    return f"{step.recipe}: {parts}" if parts else step.recipe


def _not_again(step: Step, error: UsageError) -> BundleError:
    return BundleError(f"The step '{step.recipe}' cannot be repeated on this model: {error.message}", _AGAIN)


def _maker_of(step: Step) -> Callable[[_Bench], Ledger]:
    from edgeopt.pipeline.builders.messages import PLUGIN, REPAIRED
    from edgeopt.pipeline.plans.recipes import RECIPES

    known = {"cleaned": _cleaned, "lowered": _lowered, "mapped": _mapped, "quantized": _quantized}
    maker = _quantized if step.forms else known.get(step.recipe)
    if maker is None and step.recipe in {REPAIRED, *(recipe.name for recipe in RECIPES if recipe.whole)}:
        raise BundleError(
            f"The step '{step.recipe}' needs calibration data, which a profile does not hold.",
            "Copy the bundle itself, or search again: edgeopt optimize MODEL --data DATA -o OUT",
        )
    if maker is None and step.listed(PLUGIN):
        raise BundleError(
            f"The step '{step.recipe}' belongs to the plug-in {step.listed(PLUGIN)[0]}, which a profile does not "
            "hold.",
            "Copy the bundle itself: it runs without the plug-in, unless its backend belongs to one.",
        )
    if maker is None:
        raise BundleError(
            f"The step '{step.recipe}' was recorded without its settings, so it cannot be repeated.",
            f"It was written by an older edgeopt, which did not record them, or by a newer one. {_AGAIN}",
        )
    return maker


def _cleaned(bench: _Bench) -> Ledger:
    from edgeopt.options import read_shapes

    context = PassContext(shapes=read_shapes(bench.step.listed("shapes")))
    return _passed(bench, bench.step.listed("passes"), standard_passes(), context)


def _lowered(bench: _Bench) -> Ledger:
    from edgeopt.pipeline.builders.cleaning import lowerings_of

    names = bench.step.listed("lowerings")
    known = {one.name: one for one in lowerings_of(bench.profile.deployment.run.backend)}
    missing = next((name for name in names if name not in known), None)
    if missing is not None:
        raise UsageError(f"There is no lowering '{missing}'.")
    return _passed(bench, names, tuple(known[name] for name in names), PassContext(), rounds=1)


def _mapped(bench: _Bench) -> Ledger:
    from edgeopt.graph.model import save

    save(bench.base.ir, bench.out, external_above_bytes=0)
    return ()


def _passed(
    bench: _Bench, names: Sequence[str], passes: Sequence[Pass], context: PassContext, rounds: int | None = None
) -> Ledger:
    from edgeopt.graph.model import save

    found = run_pipeline(bench.base, only=names, passes=passes, context=context, rounds=rounds or ROUNDS)
    save(found.model_ir, bench.out)
    return found.ledger


def _quantized(bench: _Bench) -> Ledger:
    from edgeopt.graph.ledger import LedgerEntry
    from edgeopt.graph.model import save
    from edgeopt.quant.write import write_again

    settings, recorded = _settings_of(bench.step), _checked_record(bench.profile)
    choices = {layer: scheme for scheme, layers in bench.step.forms.items() for layer in layers}
    backend = bench.profile.deployment.run.backend
    found = write_again(bench.base.ir, choices, backend, settings, recorded)
    save(found.model, bench.out)
    return (LedgerEntry(bench.step.recipe, applied=found.changes),)


def _settings_of(step: Step) -> "QuantSettings":
    from edgeopt.quant.records import QuantSettings

    known = {name: value for name, value in step.parameters.items() if name in QuantSettings.__struct_fields__}
    try:
        return msgspec.convert(known, thread_safe(QuantSettings))
    except msgspec.ValidationError as error:
        raise BundleError(f"The step '{step.recipe}' has a wrong setting: {error}.", _AGAIN) from None


def _checked_record(profile: Profile) -> "Recorded":
    from edgeopt.quant.write import decoded

    if profile.record is None:
        raise BundleError(
            "The deployment profile holds no calibration results, so the model cannot be quantized again.",
            _AGAIN,
        )
    return decoded(profile.record)
