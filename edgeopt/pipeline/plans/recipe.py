"""Recipe: one way to build a variant. A precision level names it; `edgeopt/profiles/schema.py` registers it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgeopt.backends import NAMES, backend_named, runtime_of
from edgeopt.graph.ledger import Ledger
from edgeopt.pipeline.builders.messages import BuildTask, Plans
from edgeopt.plugins import Offer

# The profile and the installed packages decide which of these run a variant.
ORT = tuple(name for name in NAMES if runtime_of(name) == "onnxruntime")
OPENVINO = tuple(name for name in NAMES if runtime_of(name) == "openvino")

Unsuited = Callable[[Mapping[str, int]], str]
"""Function that returns why a recipe gains nothing on a model with these operators; empty if it may gain."""


def suits_all(_operators: Mapping[str, int]) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Way to make a variant; `make` writes `task.out` and returns the ledger of its changes.

    One that makes a variant for each backend in one go returns them all.
    """

    name: str
    title: str
    file: str
    backends: tuple[str, ...]
    make: Callable[[BuildTask], Ledger | Plans]
    needs: tuple[str, ...]
    """Import packages that it works with."""
    exact: bool = False
    """Whether the recipe keeps the precision and changes only the form of the computation."""
    by_backend: bool = False
    """Whether a separate variant is made for each backend, from what the profile lists for that backend."""
    needs_data: bool = False
    """Whether the recipe calibrates, or its accuracy can only be judged on real data."""
    whole: bool = False
    """Whether a library quantizes the whole model in its own way: made soon, as it takes seconds."""
    unsuited: Unsuited = suits_all
    uniform: bool = False
    """Whether all layers get one scheme, which a plan considers too: made only if there is no plan."""
    calibrates: bool = False
    """Whether the recipe finds ranges of activations from samples."""
    of_decoders: bool = False
    """Whether the recipe gains only where each run waits for the weights: in a decoder with a cache."""
    numeric: str = "precision"
    """Name of the runtime option that changes its numbers: every value of it is a candidate of its own."""
    offer: Offer | None = None
    """Offer of a plug-in that makes the variant."""

    def runs_on(self, backend: str) -> bool:
        """Whether the backend runs the variant: `backends` lists it, or it reads a file that suits any runtime."""
        if backend in self.backends:
            return True
        if not (self.exact or self.offer) or self.by_backend:
            return False
        return (self.file or "model.onnx").endswith(backend_named(backend).formats)
