"""Recipes that change the form of the computation, not its precision."""

from edgeopt.graph.ledger import Change, Ledger, LedgerEntry
from edgeopt.pipeline.builders.cleaning import clean, lower
from edgeopt.pipeline.builders.messages import MAPPED, BuildTask
from edgeopt.pipeline.plans.recipe import OPENVINO, ORT, Recipe


def _source(_: BuildTask) -> Ledger:
    """Builds nothing, as the backends read the source file itself; returns an empty ledger."""
    return ()


def _map_weights(task: BuildTask) -> Ledger:
    from edgeopt.graph.model import load, save

    save(load(task.base).ir, task.out, external_above_bytes=0)
    change = Change("weights moved to a file that the runtime maps into memory", (task.out.name,))
    return (LedgerEntry(MAPPED, applied=(change,)),)


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
# OpenVINO reads weights into memory of its own either way.
MAPPED_WEIGHTS = Recipe(
    MAPPED,
    "exact graph rewrites, weights mapped from their own file",
    "model.onnx",
    ORT,
    _map_weights,
    ("onnx_ir",),
)
