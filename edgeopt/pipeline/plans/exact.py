"""Recipes that change the form of the computation, not its precision."""

from edgeopt.graph.ledger import Ledger
from edgeopt.pipeline.builders.cleaning import clean, lower
from edgeopt.pipeline.builders.messages import BuildTask
from edgeopt.pipeline.plans.recipe import OPENVINO, ORT, Recipe


def _source(_: BuildTask) -> Ledger:
    """Builds nothing, as the backends read the source file itself; returns an empty ledger."""
    return ()


SOURCE = Recipe("source", "the source model", "", ORT + OPENVINO, _source, (), exact=True)
CLEANED = Recipe("cleaned", "exact graph rewrites", "model.onnx", ORT + OPENVINO, clean, ("onnx_ir",), exact=True)
LOWERED = Recipe(
    "lowered",
    "operators specific to one runtime",
    "model.onnx",
    ORT + OPENVINO,
    lower,
    ("onnx_ir",),
    exact=True,
    by_backend=True,
)
