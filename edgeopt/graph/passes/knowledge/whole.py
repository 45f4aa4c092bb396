"""Nodes that belong together, because a runtime makes them one operator when it loads.

Below the opset of the operator the passes here leave them as they are, and other passes must not take them apart:
without its last factor, ONNX Runtime no longer recognizes a GELU, and runs all of its parts.
"""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import nodes_of
from edgeopt.graph.passes.fusion.gelu import find_gelu
from edgeopt.graph.passes.fusion.layer_normalization import find_layer_normalization
from edgeopt.graph.passes.fusion.rms_normalization import find_rms_normalization

if TYPE_CHECKING:
    import onnx_ir as ir

FINDERS = (
    ("GELU", find_gelu),
    ("layer normalization", find_layer_normalization),
    ("RMS normalization", find_rms_normalization),
)


def spelled_out(model: "ir.Model") -> "dict[ir.Node, str]":
    """The nodes of every operator that is spelled out, with what that is."""
    found: dict[ir.Node, str] = {}
    for node in nodes_of(model):
        for name, find in FINDERS:
            match = find(node)
            if match is not None and match.reason is None:
                found.update(dict.fromkeys(match.nodes, name))
    return found
