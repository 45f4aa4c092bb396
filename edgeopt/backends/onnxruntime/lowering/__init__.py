"""Passes that rewrite a graph into forms that only ONNX Runtime supports; they require a simplified model."""

from functools import cache
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import passes_at

if TYPE_CHECKING:
    from edgeopt.graph.passes.base import Pass

# Names of the passes in the order in which they run, with their modules in this folder.
PLACES = (
    ("ort-transformers", "transformer.TRANSFORMERS"),
    ("ort-attention", "transformer.MULTI_HEAD_ATTENTION"),
    ("ort-gelu", "transformer.GELU"),
    ("ort-quick-gelu", "transformer.QUICK_GELU"),
    ("ort-skip-normalization", "transformer.SKIP_NORMALIZATION"),
    ("ort-lines", "forms.LINES"),
    ("ort-forms", "forms.OPERATOR_FORMS"),
)
NAMES = tuple(name for name, _ in PLACES)


@cache
def lowerings() -> "tuple[Pass, ...]":
    """Returns all lowerings, imported with the first call."""
    return passes_at(__name__, (place for _, place in PLACES))
