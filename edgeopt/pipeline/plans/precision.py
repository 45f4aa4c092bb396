"""Recipes of edgeopt's own schemes: a plan that chooses one for each layer, or one scheme for all layers."""

from functools import partial

from edgeopt.pipeline.builders.messages import PLANNED, BuildTask, Plans
from edgeopt.pipeline.plans.recipe import OPENVINO, ORT, Recipe
from edgeopt.quant.measured.planning.entry import GROUPED
from edgeopt.quant.measured.timing.configs import GROUPS
from edgeopt.quant.schemes import Scheme

_NEEDS = ("onnxruntime", "onnx_ir")
# They calibrate nothing, and a screen on made-up inputs tells whether a value left their range.
_FLOATS = frozenset({"fp16", "bf16"})


def _planned(task: BuildTask) -> Plans:
    from edgeopt.pipeline.builders.planning import plan

    return plan(task)


def _in_one_scheme(name: str, task: BuildTask) -> Plans:
    from edgeopt.pipeline.builders.planning import apply_scheme

    return apply_scheme(task, name)


PLAN = Recipe(
    PLANNED,
    "the fastest accurate precision for each layer",
    "model.onnx",
    ORT + OPENVINO,
    _planned,
    _NEEDS,
    needs_data=True,
)


def recipe_of(scheme: Scheme) -> Recipe:
    """Returns the recipe that quantizes all layers in this scheme."""
    return Recipe(
        scheme.name,
        scheme.title,
        "model.onnx",
        scheme.backends,
        partial(_in_one_scheme, scheme.name),
        _NEEDS,
        needs_data=scheme.name not in _FLOATS,
        uniform=True,
        calibrates=scheme.needs_ranges,
        numeric=GROUPS if scheme.name == GROUPED else "precision",
    )
