"""Variants that plug-ins make: the code of others, run in a worker process; only their files count."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from edgeopt.errors import EdgeoptError, ModelError, error_text
from edgeopt.graph.ledger import Change, Ledger, LedgerEntry
from edgeopt.graph.model import load, save
from edgeopt.graph.passes import Pass
from edgeopt.graph.pipeline import run_pipeline
from edgeopt.graph.structure import fault, signature
from edgeopt.pipeline.builders.cleaning import changed
from edgeopt.pipeline.builders.messages import BuildTask
from edgeopt.plugins import Offer, load_offer

if TYPE_CHECKING:
    from pathlib import Path

    from edgeopt.backends.base import Feeds

    RecipeFunction = Callable[[Path, Path, list[Feeds]], object]

_LONGEST_WORDS = 200


def make_by_pass(offer: Offer, task: BuildTask) -> Ledger:
    """Writes the model after the pass; the results are judged as those of every candidate, not proved here."""
    rewrite = load_offer(offer)
    if not isinstance(rewrite, Pass):
        raise ModelError(
            f"The plug-in {offer.plugin} offers '{offer.name}' as a pass, which is a {type(rewrite).__name__}."
        )
    own = replace(rewrite, name=offer.name, on_request=False)
    result = run_pipeline(load(task.base), passes=(own,), rounds=1)
    if not changed(result.ledger):
        undone = [entry.rolled_back for entry in result.ledger if entry.rolled_back]
        refused = [one.reason for entry in result.ledger for one in entry.refused]
        raise ModelError((*undone, *refused, "The pass found nothing to change.")[0])
    save(result.model_ir, task.out)
    return result.ledger


def make_by_recipe(offer: Offer, task: BuildTask) -> Ledger:
    """Runs the recipe, and checks that the model it writes has the inputs and outputs of the source."""
    make = load_offer(offer)
    if not callable(make):
        raise ModelError(f"The plug-in {offer.plugin} offers '{offer.name}' as a recipe, which is not a function.")
    samples = task.calibration
    feeds: list[Feeds] = [] if samples is None else [samples.feeds(number) for number in range(len(samples))]
    try:
        result = cast("RecipeFunction", make)(task.base, task.out, feeds)
    except EdgeoptError:
        raise
    except Exception as error:  # the code of others raises anything
        raise ModelError(f"it failed with {type(error).__name__}: {error_text(error)}") from error
    if not task.out.is_file():
        raise ModelError(f"it wrote no {task.out.name}")
    if task.out.suffix == ".onnx":
        wrong = fault(load(task.out).ir, signature(load(task.source).ir))
        if wrong is not None:
            raise ModelError(wrong)
    words = result.strip()[:_LONGEST_WORDS] if isinstance(result, str) else ""
    return (LedgerEntry(offer.name, applied=(Change(words or offer.title),)),)
