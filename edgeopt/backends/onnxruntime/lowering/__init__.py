"""Forms of a graph that only ONNX Runtime understands, each a pass; run them on a model that is clean already."""

from functools import cache
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import passes_at

if TYPE_CHECKING:
    from edgeopt.graph.passes.base import Pass

# In the order in which they run: the name of each, and its module beside this one.
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
