"""Forms of a graph that only ONNX Runtime understands, each a pass; run them on a model that is clean already."""

from edgeopt.backends.onnxruntime.lowering import (
    activations,
    attention,
    forms,
    lines,
    skip_normalization,
    transformer,
)
from edgeopt.graph.passes.base import Pass

LOWERINGS: tuple[Pass, ...] = (
    transformer.PASS,
    attention.PASS,
    activations.GELU,
    activations.QUICK_GELU,
    skip_normalization.PASS,
    lines.PASS,
    forms.PASS,
)

__all__ = ["LOWERINGS"]
