"""x * (1 + erf(x / sqrt(2))) / 2, and its approximation by tanh, become Gelu.

    gelu(x) = 0.5 * x * (1 + erf(x * 0.70710678))
            ~ 0.5 * x * (1 + tanh(0.79788456 * (x + 0.044715 * x^3)))

Both are compared as polynomials in x and in the result of Erf or Tanh, whatever the order of their factors.
ONNX Runtime finds most spellings by itself when it loads; measured, both forms are as fast there and in OpenVINO.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Pass, PassContext, PassResult, is_op
from edgeopt.graph.passes.knowledge.matching import Found, fuse, operands, producer, scalar, written_as

if TYPE_CHECKING:
    import onnx_ir as ir


GELU_OPSET = 20
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
            return Found(root, (node, *nodes), "Gelu", (x,), {"approximate": approximate}, opset=GELU_OPSET)
    return None


def apply_gelu(model: "ir.Model", context: PassContext) -> PassResult:
    """Fuses every GELU, in subgraphs and functions too."""
    return fuse(model, context, find_gelu, "GELU")


GELU = Pass(
    "gelu",
    "GELUs written as several nodes (erf or tanh) become one operator",
    apply_gelu,
    100.0,
    lowest_opset=GELU_OPSET,
)


HARD_SWISH_OPSET = 14


@dataclass(frozen=True, slots=True)
class Gate:
    """A part that is 0 below, `top` above, and straight between: of `inner`, which gets `slope` and `offset`."""

    inner: "ir.Value"
    top: float
    nodes: "tuple[ir.Node, ...]"
    slope: float = 1.0
    offset: float = 0.0


def _gate(node: "ir.Node") -> Gate | None:
    x = node.inputs[0] if node.inputs else None
    if x is None:
        return None
    if is_op(node, "HardSigmoid"):
        slope, offset = (
            node.attributes[name].as_float() if name in node.attributes else default
            for name, default in (("alpha", 0.2), ("beta", 0.5))
        )
        return Gate(x, 1.0, (node,), slope, offset) if slope else None
    if is_op(node, "Clip") and len(node.inputs) == 3 and scalar(node.inputs[1]) == 0.0:
        top = scalar(node.inputs[2])
        return Gate(x, top, (node,)) if top else None
    if is_op(node, "Min") and len(node.inputs) == 2:
        for relu, limit in operands(node):
            below, top = producer(relu, "Relu"), scalar(limit)
            if below is not None and below.inputs[0] is not None and top:
                return Gate(below.inputs[0], top, (node, below))
    return None


def find_hard_swish(node: "ir.Node") -> Found | None:
    """The product of x and a part that rises from 0 at -3 to its top at 3."""
    gate = _gate(node)
    if gate is None:
        return None
    # slope * (a x + b) + offset has to be top * (x / 6 + 1 / 2).
    argument = {(1,): gate.top / 6 / gate.slope, (0,): (gate.top / 2 - gate.offset) / gate.slope}
    argument = {powers: factor for powers, factor in argument.items() if factor}
    match = written_as(gate.inner, argument, node.outputs[0], {(1, 1): 1 / gate.top})
    if match is None:
        return None
    x, root, nodes = match
    return Found(root, (*gate.nodes, *nodes), "HardSwish", (x,), opset=HARD_SWISH_OPSET)


def apply_hard_swish(model: "ir.Model", context: PassContext) -> PassResult:
    """Fuses every HardSwish, in subgraphs and functions too."""
    return fuse(model, context, find_hard_swish, "HardSwish operator")


HARD_SWISH = Pass(
    "hard-swish",
    "HardSwishes written as several nodes become one operator",
    apply_hard_swish,
    100.0,
    lowest_opset=HARD_SWISH_OPSET,
)
