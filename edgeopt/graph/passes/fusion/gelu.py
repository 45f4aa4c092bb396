"""x * (1 + erf(x / sqrt(2))) / 2, and its approximation by tanh, become Gelu.

    gelu(x) = 0.5 * x * (1 + erf(x * 0.70710678))
            ~ 0.5 * x * (1 + tanh(0.79788456 * (x + 0.044715 * x^3)))

Both are compared as polynomials in x and in the result of Erf or Tanh, whatever the order of their factors.
ONNX Runtime finds most spellings by itself when it loads; measured, both forms are as fast there and in OpenVINO.
"""

import math
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Pass, PassContext, PassResult, is_op
from edgeopt.graph.passes.knowledge.matching import Found, fuse, written_as

if TYPE_CHECKING:
    import onnx_ir as ir

OPSET = 20
ROOT = math.sqrt(2 / math.pi)
SPELLINGS = (
    ("Erf", "none", {(1,): math.sqrt(0.5)}),
    ("Tanh", "tanh", {(1,): ROOT, (3,): ROOT * 0.044715}),
)
WHOLE = {(1, 0): 0.5, (1, 1): 0.5}


def find_gelu(node: "ir.Node") -> Found | None:
    """The GELU that an Erf or a Tanh is the heart of."""
    for kind, approximate, argument in SPELLINGS:
        if not is_op(node, kind) or node.inputs[0] is None:
            continue
        match = written_as(node.inputs[0], argument, node.outputs[0], WHOLE)
        if match is not None:
            x, root, nodes = match
            return Found(root, (node, *nodes), "Gelu", (x,), {"approximate": approximate}, opset=OPSET)
    return None


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Fuses every GELU, in subgraphs and functions too."""
    return fuse(model, context, find_gelu, "GELU")


PASS = Pass(
    "gelu",
    "GELUs written as several nodes (erf or tanh) become one operator",
    apply,
    100.0,
    lowest_opset=OPSET,
)
