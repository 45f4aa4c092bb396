"""Recipes of plug-ins: each pass and each recipe that they offer makes one variant."""

from functools import partial

import msgspec

from edgeopt.graph.ledger import Ledger
from edgeopt.pipeline.builders.messages import BuildTask
from edgeopt.pipeline.plans.recipe import OPENVINO, ORT, Recipe
from edgeopt.plugins import Offer, offered
from edgeopt.profiles import TargetProfile

_READERS = {".onnx": ORT + OPENVINO, ".xml": OPENVINO}


def plugin_recipes() -> tuple[Recipe, ...]:
    """Returns the recipes of all plug-ins, also of unusable ones, which are left out later with that reason."""
    return tuple(map(_recipe, (*offered("pass"), *offered("recipe"))))


def with_plugins(profile: TargetProfile) -> TargetProfile:
    """Returns the profile with all that plug-ins bring, to be tried after the profile's own entries."""
    recipes = tuple(recipe.name for recipe in plugin_recipes())
    backends = tuple(offer.name for offer in offered("backend"))
    return msgspec.structs.replace(
        profile,
        precision=msgspec.structs.replace(profile.precision, ladder=(*profile.precision.ladder, *recipes)),
        backends=msgspec.structs.replace(profile.backends, order=(*profile.backends.order, *backends)),
    )


def _recipe(offer: Offer) -> Recipe:
    file = offer.file or "model.onnx"
    return Recipe(
        name=offer.name,
        title=offer.title,
        file=file,
        backends=next((readers for suffix, readers in _READERS.items() if file.endswith(suffix)), ()),
        make=partial(_make, offer),
        needs=(),
        needs_data=offer.needs_data,
        offer=offer,
    )


def _make(offer: Offer, task: BuildTask) -> Ledger:
    from edgeopt.pipeline.builders.by_plugin import make_by_pass, make_by_recipe

    return (make_by_pass if offer.kind == "pass" else make_by_recipe)(offer, task)
