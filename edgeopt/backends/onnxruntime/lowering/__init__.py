"""Forms of a graph that only ONNX Runtime understands, each a pass; run them on a model that is clean already."""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.places import imported_later

if TYPE_CHECKING:
    from edgeopt.graph.passes.base import Pass

    LOWERINGS: "tuple[Pass, ...]"

# In the order in which they run: the name of each, and where it stands in the files beside this one.
PLACES = (
    ("ort-transformers", "transformer.PASS"),
    ("ort-attention", "attention.PASS"),
    ("ort-gelu", "activations.GELU"),
    ("ort-quick-gelu", "activations.QUICK_GELU"),
    ("ort-skip-normalization", "skip_normalization.PASS"),
    ("ort-lines", "lines.PASS"),
    ("ort-forms", "forms.PASS"),
)
NAMES = tuple(name for name, _ in PLACES)

__getattr__ = imported_later(__name__, "LOWERINGS", (place for _, place in PLACES))

__all__ = ["LOWERINGS", "NAMES"]
