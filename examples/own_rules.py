"""A rewrite of your own: PReLU, as Keras and TensorFlow spell it out, becomes one node.

    edgeopt simplify model.onnx -o out.onnx --data data.npz --rules own_rules.py

edgeopt runs this file. It proves the result against the source model, and undoes the rewrite if outputs differ.
"""

from typing import Any

from onnxscript import ir
from onnxscript.rewriter import MatchResult

NAME = "fuse-prelu"
TITLE = "Relu(x) + slope * Relu(-x) becomes PRelu"


def pattern(op: Any, x: Any, slope: Any) -> Any:
    """The nodes to find. The arguments match any value."""
    return op.Add(op.Relu(x), op.Mul(slope, op.Relu(op.Neg(x))))


def check(_context: object, x: ir.Value, slope: ir.Value) -> MatchResult | bool:
    """Whether the rewrite is valid here. The ledger shows the reason for a refusal."""
    constant = ir.convenience.get_const_tensor(slope)
    if constant is None:
        return MatchResult().fail("the slope is not a constant")
    if x.shape is None or len(x.shape) < len(constant.shape):
        return MatchResult().fail("the slope has more dimensions than x, or the shape of x is unknown")
    ends = list(x.shape)[len(x.shape) - len(constant.shape) :]
    if any(size not in (1, end) for size, end in zip(constant.shape, ends, strict=True)):
        return MatchResult().fail("the slope is larger than x")
    return True


def replacement(op: Any, x: ir.Value, slope: ir.Value) -> Any:
    """The nodes that take their place. PRelu multiplies x itself where it is negative, so the sign changes."""
    constant = ir.convenience.get_const_tensor(slope)
    negative = -constant.numpy() if constant is not None else None  # `check` has seen that it is one
    return op.PRelu(x, op.Constant(value=ir.tensor(negative)))
