"""x * clip(x + 3, 0, 6) / 6 becomes HardSwish.

    hard_swish(x) = x * max(0, min(1, x / 6 + 0.5))

The clipped part may be a Clip, a Min over a Relu, or a HardSigmoid; wherever the sixth is taken.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Pass, PassContext, PassResult, is_op
from edgeopt.graph.passes.knowledge.matching import Found, fuse, operands, producer, scalar, written_as

if TYPE_CHECKING:
    import onnx_ir as ir

OPSET = 14


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
    return Found(root, (*gate.nodes, *nodes), "HardSwish", (x,), opset=OPSET)


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Fuses every HardSwish, in subgraphs and functions too."""
    return fuse(model, context, find_hard_swish, "HardSwish operator")


PASS = Pass(
    "hard-swish", "HardSwishes written as several nodes become one operator", apply, 100.0, lowest_opset=OPSET
)
