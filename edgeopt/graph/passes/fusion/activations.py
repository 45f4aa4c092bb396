"""Fusion of decomposed activations into one operator: GELU, HardSwish and Softmax."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Pass, PassContext, PassResult, is_op
from edgeopt.graph.passes.knowledge.matching import (
    PatternMatch,
    fuse,
    integers,
    operands,
    producer,
    rank,
    scalar,
    written_as,
)

if TYPE_CHECKING:
    import onnx_ir as ir

GELU_OPSET = 20
ROOT = math.sqrt(2 / math.pi)
SPELLINGS = (("Erf", "none", {(1,): math.sqrt(0.5)}), ("Tanh", "tanh", {(1,): ROOT, (3,): ROOT * 0.044715}))
WHOLE = {(1, 0): 0.5, (1, 1): 0.5}


def find_gelu(node: "ir.Node") -> PatternMatch | None:
    """Matches the GELU around an Erf or a Tanh."""
    for kind, approximate, argument in SPELLINGS:
        if not is_op(node, kind) or node.inputs[0] is None:
            continue
        match = written_as(node.inputs[0], argument, node.outputs[0], WHOLE)
        if match is not None:
            x, root, nodes = match
            return PatternMatch(root, (node, *nodes), "Gelu", (x,), {"approximate": approximate}, opset=GELU_OPSET)
    return None


def apply_gelu(model: "ir.Model", context: PassContext) -> PassResult:
    """Fuses x * (1 + erf(x / sqrt(2))) / 2, and its approximation by tanh, into Gelu.

        gelu(x) = 0.5 * x * (1 + erf(x * 0.70710678))
                ~ 0.5 * x * (1 + tanh(0.79788456 * (x + 0.044715 * x^3)))

    Both are compared as polynomials in x and in the result of Erf or Tanh, whatever the order of their factors.
    ONNX Runtime finds most spellings by itself when it loads; measured, both forms are as fast there and in
    OpenVINO.
    """
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
    """A clipped line: slope * inner + offset, limited to the range from 0 to `top`."""

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


def find_hard_swish(node: "ir.Node") -> PatternMatch | None:
    """Matches the product of x and a clipped line that rises from 0 at -3 to its top at 3."""
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
    return PatternMatch(root, (*gate.nodes, *nodes), "HardSwish", (x,), opset=HARD_SWISH_OPSET)


def apply_hard_swish(model: "ir.Model", context: PassContext) -> PassResult:
    """Fuses x * clip(x + 3, 0, 6) / 6 into HardSwish.

        hard_swish(x) = x * max(0, min(1, x / 6 + 0.5))

    The clipped part may be a Clip, a Min over a Relu, or a HardSigmoid, and the factor 1/6 may be anywhere.
    """
    return fuse(model, context, find_hard_swish, "HardSwish operator")


HARD_SWISH = Pass(
    "hard-swish",
    "HardSwishes written as several nodes become one operator",
    apply_hard_swish,
    100.0,
    lowest_opset=HARD_SWISH_OPSET,
)

OVERFLOWS = "its exponentials can overflow, because the maximum is not subtracted; those of Softmax cannot"
VANISHES = "the logarithm of a Softmax of 0 is minus infinity; LogSoftmax returns a finite number"
OPSET = 13  # before, Softmax covers all dimensions from its axis on


def find_softmax(node: "ir.Node") -> PatternMatch | None:
    """Matches the softmax that ends at this node."""
    if is_op(node, "Log"):
        plain = producer(node.inputs[0], "Softmax")
        if plain is not None:
            return PatternMatch(
                node,
                (node, plain),
                "LogSoftmax",
                (plain.inputs[0],),
                _axis(plain, -1),
                opset=OPSET,
                reason=VANISHES,
            )
    elif is_op(node, "Div", "Mul"):
        return _quotient(node)
    elif is_op(node, "Sub"):
        return _difference(node)
    return None


def _quotient(node: "ir.Node") -> PatternMatch | None:
    """Matches exp(...) / sum(exp(...)), or a product with the reciprocal of the sum."""
    for above, below in operands(node):
        power, more = producer(above, "Exp"), list["ir.Node"]()
        total: ir.Value | None = below
        if is_op(node, "Mul"):
            inverse = producer(below, "Reciprocal")
            if inverse is None:
                continue
            total, more = inverse.inputs[0], [inverse]
        elif above is not node.inputs[0]:
            continue
        axis = _reduction(producer(total, "ReduceSum"), above)
        if power is None or power.inputs[0] is None or axis is None:
            continue
        x, shift = _without_maximum(power.inputs[0], axis)
        summed = producer(total, "ReduceSum")
        nodes = (node, *more, power, *shift, *((summed,) if summed is not None else ()))
        reason = None if shift else OVERFLOWS
        return PatternMatch(node, nodes, "Softmax", (x,), {"axis": axis}, opset=OPSET, reason=reason)
    return None


def _difference(node: "ir.Node") -> PatternMatch | None:
    """Matches x - logsumexp(x), or (x - m) - log(sum(exp(x - m)))."""
    above, below = node.inputs
    if above is None:
        return None
    whole = producer(below, "ReduceLogSumExp")
    axis = _reduction(whole, above)
    if whole is not None and axis is not None:
        return PatternMatch(node, (node, whole), "LogSoftmax", (above,), {"axis": axis}, opset=OPSET)
    log = producer(below, "Log")
    total = producer(log.inputs[0], "ReduceSum") if log is not None else None
    power = producer(total.inputs[0], "Exp") if total is not None else None
    axis = _reduction(total, power.outputs[0]) if power is not None else None
    if log is None or total is None or power is None or axis is None or power.inputs[0] is not above:
        return None
    x, shift = _without_maximum(above, axis)
    nodes, reason = (node, log, total, power, *shift), None if shift else OVERFLOWS
    return PatternMatch(node, nodes, "LogSoftmax", (x,), {"axis": axis}, opset=OPSET, reason=reason)


def _without_maximum(value: "ir.Value", axis: int) -> "tuple[ir.Value, tuple[ir.Node, ...]]":
    """Returns x for a value x - max(x) along the axis, which only affects the range, or the value itself."""
    shift = producer(value, "Sub")
    if shift is None or shift.inputs[0] is None:
        return value, ()
    largest = producer(shift.inputs[1], "ReduceMax")
    if largest is None or _reduction(largest, shift.inputs[0]) != axis:
        return value, ()
    return shift.inputs[0], (shift, largest)


def _reduction(node: "ir.Node | None", of: "ir.Value") -> int | None:
    """Returns the only axis of a reduction of this value that keeps it, counted from the end, or None."""
    if node is None or node.inputs[0] is not of:
        return None
    if "keepdims" in node.attributes and not node.attributes["keepdims"].as_int():
        return None
    if "axes" in node.attributes:
        axes: tuple[int, ...] | None = tuple(node.attributes["axes"].as_ints())
    else:
        axes = integers(node.inputs[1]) if len(node.inputs) > 1 else None
    if axes is None or len(axes) != 1:
        return None
    if axes[0] < 0:
        return axes[0]
    dimensions = rank(of)
    return axes[0] - dimensions if dimensions is not None else None


def _axis(node: "ir.Node", default: int) -> dict[str, int]:
    return {"axis": int(node.attributes["axis"].as_int()) if "axis" in node.attributes else default}


def apply_softmax(model: "ir.Model", context: PassContext) -> PassResult:
    """Fuses exponentials over their sum into Softmax, and the logarithm of it into LogSoftmax.

        softmax(x) = exp(x - m) / sum(exp(x - m))        log_softmax(x) = x - m - log(sum(exp(x - m)))

    where m is the maximum along the axis; the sum may be a ReduceLogSumExp. Forms that give NaN or infinity where
    the operator gives a number are refused: without the maximum, exp(100) is infinite and the quotient NaN instead
    of 1; the logarithm of a Softmax is minus infinity where it is 0, unlike LogSoftmax.
    """
    return fuse(model, context, find_softmax, "softmax")


SOFTMAX = Pass("softmax", "exponentials over their sum become Softmax", apply_softmax, 100.0, lowest_opset=OPSET)
