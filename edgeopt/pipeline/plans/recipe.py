"""A recipe: one way to build a variant. A precision ladder names it; `edgeopt/profiles/schema.py` registers it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgeopt.backends import NAMES, backend_named
from edgeopt.graph.ledger import Ledger
from edgeopt.pipeline.build.messages import BuildTask, Plans
from edgeopt.plugins import Offer

# The profile, and what is installed, decide which of them run it.
ORT = tuple(name for name in NAMES if name.startswith("onnxruntime-"))
OPENVINO = tuple(name for name in NAMES if name.startswith("openvino-"))

Unsuited = Callable[[Mapping[str, int]], str]
"""Why a recipe gains nothing on a model with these operators; empty where it may."""


def suits_all(_operators: Mapping[str, int]) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One way to make a variant; `make` writes `task.out` and returns the ledger of what it did.

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
    """It changes the form of the computation, not its precision."""
    by_backend: bool = False
    """It is made for each backend apart, by what the profile lists for that."""
    needs_data: bool = False
    """It calibrates, or its accuracy can only be judged on real data."""
    whole: bool = False
    """A library's own way with the whole model: made soon, as it takes seconds."""
    unsuited: Unsuited = suits_all
    uniform: bool = False
    """One form for all layers, which a plan looks at too: made only where there is no plan."""
    numeric: str = "precision"
    """The runtime option that changes its numbers: every value of it is a candidate of its own."""
    offer: Offer | None = None
    """What of a plug-in makes it."""

    def runs_on(self, backend: str) -> bool:
        """One of edgeopt's own that it is for; or one of a plug-in that reads its file."""
        if backend in self.backends:
            return True
        if backend in NAMES or not (self.exact or self.offer) or self.by_backend:
            return False
        return (self.file or "model.onnx").endswith(backend_named(backend).formats)
