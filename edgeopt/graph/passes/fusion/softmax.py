"""Exponentials over their sum become Softmax, and the logarithm of it LogSoftmax.

    softmax(x) = exp(x - m) / sum(exp(x - m))        log_softmax(x) = x - m - log(sum(exp(x - m)))

where m is the maximum along the axis; the sum may be a ReduceLogSumExp. Without the maximum, exp(100) is infinite
and the quotient no number, where Softmax gives 1; and the logarithm of a Softmax is minus infinity where it is 0,
where LogSoftmax gives a number. What answers NaN or infinity must go on doing so: these are refused.
"""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Pass, PassContext, PassResult, is_op
from edgeopt.graph.passes.knowledge.matching import Found, fuse, integers, operands, producer, rank

if TYPE_CHECKING:
    import onnx_ir as ir

OVERFLOWS = "its exponentials can overflow, because the maximum is not subtracted; those of Softmax cannot"
VANISHES = "the logarithm of a Softmax of 0 is minus infinity; LogSoftmax returns a finite number"
OPSET = 13  # before, Softmax took all dimensions after its axis together


def find_softmax(node: "ir.Node") -> Found | None:
    """The softmax that ends at this node."""
    if is_op(node, "Log"):
        plain = producer(node.inputs[0], "Softmax")
        if plain is not None:
            return Found(
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


def _quotient(node: "ir.Node") -> Found | None:
    """exp(...) / sum(exp(...)), or times the reciprocal of the sum."""
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
        return Found(node, nodes, "Softmax", (x,), {"axis": axis}, opset=OPSET, reason=reason)
    return None


def _difference(node: "ir.Node") -> Found | None:
    """x - logsumexp(x), or (x - m) - log(sum(exp(x - m)))."""
    above, below = node.inputs
    if above is None:
        return None
    whole = producer(below, "ReduceLogSumExp")
    axis = _reduction(whole, above)
    if whole is not None and axis is not None:
        return Found(node, (node, whole), "LogSoftmax", (above,), {"axis": axis}, opset=OPSET)
    log = producer(below, "Log")
    total = producer(log.inputs[0], "ReduceSum") if log is not None else None
    power = producer(total.inputs[0], "Exp") if total is not None else None
    axis = _reduction(total, power.outputs[0]) if power is not None else None
    if log is None or total is None or power is None or axis is None or power.inputs[0] is not above:
        return None
    x, shift = _without_maximum(above, axis)
    nodes, reason = (node, log, total, power, *shift), None if shift else OVERFLOWS
    return Found(node, nodes, "LogSoftmax", (x,), {"axis": axis}, opset=OPSET, reason=reason)


def _without_maximum(value: "ir.Value", axis: int) -> "tuple[ir.Value, tuple[ir.Node, ...]]":
    """x, where the value is x less its own maximum along the axis; it changes nothing but the range."""
    shift = producer(value, "Sub")
    if shift is None or shift.inputs[0] is None:
        return value, ()
    largest = producer(shift.inputs[1], "ReduceMax")
    if largest is None or _reduction(largest, shift.inputs[0]) != axis:
        return value, ()
    return shift.inputs[0], (shift, largest)


def _reduction(node: "ir.Node | None", of: "ir.Value") -> int | None:
    """The one axis that a reduction of this value goes over and keeps, counted from the end."""
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


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Fuses every softmax, in subgraphs and functions too."""
    return fuse(model, context, find_softmax, "softmax")


PASS = Pass("softmax", "exponentials over their sum become Softmax", apply, 100.0, lowest_opset=OPSET)
