"""Limits one after another become one: Clip, Relu, Min and Max with constants, in onnxscript's form of rules.

    Clip(Clip(x, a, b), c, d)  =  Clip(x, limited(a), limited(b))     limited: by c and d, as all numbers are
    Min(Min(x, a), b)          =  Min(x, Min(a, b))                   Max alike

The second limits work on the first as on any number, whichever way round the four lie: after Clip(0, 1) and
Clip(5, 6) everything is 5. onnxscript's own rules take the larger of the lower limits and the smaller of the upper
ones, which is 1 there.
"""

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.graph.passes.base import constant, is_op
from edgeopt.graph.passes.knowledge.arithmetic import widens

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray

# onnxscript's builders, rules and verdicts, which have every operator as a method and carry no types; and numbers.
Op = Any


@dataclass(frozen=True, slots=True)
class Clipping:
    """Numbers below `lowest` become it, those above `highest` likewise; None where there is no such limit."""

    lowest: Op
    highest: Op

    def of(self, number: Op) -> Op:
        """What becomes of a number."""
        number = number if self.lowest is None else max(number, self.lowest)
        return number if self.highest is None else min(number, self.highest)

    def then(self, after: "Clipping") -> "Clipping":
        """Both, one after the other; the lower limit is never above the upper one."""
        low = after.lowest if self.lowest is None else after.of(self.lowest)
        high = after.highest if self.highest is None else after.of(self.highest)
        return Clipping(low if low is None or high is None else min(low, high), high)


def limit_rules() -> tuple[tuple[Op, ...], tuple[Op, ...]]:
    """Those of Min and Max, and those of Relu and Clip, as onnxscript's RewriteRule objects."""
    from onnxscript.rewriter import RewriteRule

    def rule(first: str, second: str) -> Op:
        return RewriteRule(_pattern(first, second), _merged, _can_merge, name=f"{first}-{second}".lower())

    return (
        (rule("Min", "Min"), rule("Max", "Max"), rule("Max", "Min"), rule("Min", "Max")),
        (
            rule("Relu", "Clip"),
            rule("Clip", "Relu"),
            RewriteRule(_relu_relu, _one_relu, name="relu-relu"),
            rule("Clip", "Clip"),
        ),
    )


def _relu_relu(op: Op, x: Op) -> Op:
    return op.Relu(op.Relu(x))


def _one_relu(op: Op, x: Op) -> Op:
    return op.Relu(x)


def _pattern(first: str, second: str) -> Op:
    def pattern(op: Op, x: Op) -> Op:
        before = getattr(op, first)(x, _allow_other_inputs=True, _outputs=["before"])
        return getattr(op, second)(before, _allow_other_inputs=True, _outputs=["behind"])

    return pattern


def _can_merge(context: Op, x: "ir.Value", before: "ir.Value", behind: "ir.Value", **_: Op) -> Op:  # noqa: ARG001 - rules get all they bind
    from onnxscript.rewriter import MatchResult

    reason = _why_not(before.producer(), behind.producer())
    return MatchResult().fail(reason) if reason else True


def _why_not(before: "ir.Node", behind: "ir.Node") -> str | None:
    x = before.inputs[0]
    if x is None or x.dtype is None:
        return "the type of the limited tensor is unknown"
    for node in (before, behind):
        if "min" in node.attributes or "max" in node.attributes:
            return "its limits are attributes, as before opset 11"
        for value in node.inputs[1:]:
            array = constant(value)
            if value is not None and array is None:
                return f"{value.name} is not a constant."
            if array is not None and np.isnan(array.astype(np.float64)).any():
                return f"{value.name if value is not None else ''} is not a number"
    if not _others(before, behind):
        return "it has no limits"
    if before.op_type == behind.op_type and is_op(before, "Min", "Max"):
        merged, given = _joined(before, behind), [constant(value) for value in _others(before, behind)]
        larger = merged.size > sum(array.size for array in given if array is not None)
        return "the merged limits would be larger than both" if larger else None
    for value in _others(before, behind):
        array = constant(value)
        if array is not None and (array.size != 1 or widens(x, array)):
            return f"{value.name if value is not None else ''} is not a scalar."
    return None


def _others(*nodes: "ir.Node") -> "list[ir.Value | None]":
    return [value for node in nodes for value in node.inputs[1:]]


def _joined(before: "ir.Node", behind: "ir.Node") -> "NDArray[Any]":
    both = [array for value in _others(before, behind) if (array := constant(value)) is not None]
    joined: NDArray[Any] = reduce(np.minimum if is_op(before, "Min") else np.maximum, both)
    return joined


def _merged(op: Op, x: "ir.Value", before: "ir.Value", behind: "ir.Value", **_: Op) -> Op:
    import onnx_ir as ir

    first, second = before.producer(), behind.producer()
    if first.op_type == second.op_type and is_op(first, "Min", "Max"):
        return getattr(op, first.op_type)(x, op.Constant(value=ir.tensor(_joined(first, second))))
    assert x.dtype is not None  # noqa: S101 - _why_not() has seen to it
    kind = x.dtype.numpy()
    limits = _limits(first, kind).then(_limits(second, kind))
    ends = [
        None if number is None or number == unsaid else op.Constant(value=ir.tensor(np.asarray(number, kind)))
        for number, unsaid in zip((limits.lowest, limits.highest), _unsaid("Clip", kind), strict=True)
    ]
    while ends and ends[-1] is None:
        ends.pop()
    return op.Clip(x, *ends)


def _unsaid(operator: str, kind: "np.dtype[Any]") -> tuple[Op, Op]:
    """The limits of an operator to which none is given: a Clip has finite ones, the others let infinity pass."""
    import ml_dtypes

    try:
        found = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
    except ValueError:
        return None, None
    if operator == "Clip":
        return found.min, found.max
    return kind.type(-np.inf), kind.type(np.inf)


def _limits(node: "ir.Node", kind: "np.dtype[Any]") -> Clipping:
    numbers = [None if array is None else array.reshape(())[()] for array in map(constant, node.inputs[1:])]
    low, high = _unsaid(node.op_type, kind)
    if is_op(node, "Relu"):
        return Clipping(np.zeros((), kind)[()], high)
    if is_op(node, "Clip"):
        lowest, highest = (*numbers, None, None)[:2]
        return Clipping(low if lowest is None else lowest, high if highest is None else highest)
    known = [number for number in numbers if number is not None]
    if is_op(node, "Min"):
        return Clipping(low, min(known, default=high))
    return Clipping(max(known, default=low), high)
