"""The `cleaned` variant: the graph's exact passes, with the numbers checked in a runtime."""

from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.backends import BACKENDS
from edgeopt.backends.base import Array, Available, Backend
from edgeopt.errors import EdgeoptError, ModelError
from edgeopt.graph.ledger import Ledger
from edgeopt.graph.model import load, save
from edgeopt.graph.pipeline import run_pipeline
from edgeopt.graph.verify import compare_outputs
from edgeopt.search.kitchen import Kitchen

if TYPE_CHECKING:
    import onnx_ir as ir

# Rewrites of float arithmetic differ in the last bits; 80 dB is the `exact` budget.
EXACT_DB = 80.0
_MOST_CHECKED = 4


def clean(kitchen: Kitchen) -> Ledger:
    """Writes the cleaned model; raises ModelError when no pass changed anything."""
    model = load(kitchen.source)
    feeds = [kitchen.check_samples.feeds(k) for k in range(min(len(kitchen.check_samples), _MOST_CHECKED))]
    backend, reference = _reference(kitchen, feeds)

    def check(rewritten: "ir.Model") -> str | None:
        candidate = kitchen.out.with_name("check.onnx")
        save(rewritten, candidate)
        try:
            accuracy = compare_outputs(reference, _run(backend, candidate, feeds))
        except EdgeoptError as error:
            return error.message
        finally:
            candidate.unlink(missing_ok=True)
        if accuracy.snr_db >= EXACT_DB:
            return None
        return f"the outputs differ: {accuracy.snr_db:.1f} dB against the source model"

    result = run_pipeline(model, only=kitchen.passes or (), check=check)
    if not any(entry.applied and not entry.rolled_back for entry in result.ledger):
        raise ModelError("No exact rewrite applies: the graph is as lean as these passes make it.")
    save(result.model_ir, kitchen.out)
    return result.ledger


def _reference(kitchen: Kitchen, feeds: list[dict[str, Array]]) -> tuple[Backend, list[dict[str, Array]]]:
    """The first backend that runs the source, and what it answers."""
    reasons = []
    for backend in BACKENDS:
        if ".onnx" not in backend.formats or not isinstance(backend.available(), Available):
            continue
        try:
            return backend, _run(backend, kitchen.source, feeds)
        except EdgeoptError as error:
            reasons.append(f"{backend.title}: {error.message}")
    raise ModelError("No installed runtime can run the model, so no rewrite can be checked. " + " ".join(reasons))


def _run(backend: Backend, model: Path, feeds: list[dict[str, Array]]) -> list[dict[str, Array]]:
    session = backend.load(model, {})
    try:
        return [session.run(f) for f in feeds]
    finally:
        session.close()
