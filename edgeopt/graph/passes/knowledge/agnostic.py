"""Operators that compute the same in any order of dimensions, and the attributes to change for another order.

Where y = Transpose(x, perm), the axis `a` of y is the axis `perm[a]` of x.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.graph.passes.base import constant, is_op
from edgeopt.graph.passes.knowledge.linear import integer, new_weight

if TYPE_CHECKING:
    import onnx_ir as ir

UNARY = (
    "Abs", "Cast", "Ceil", "Celu", "Clip", "Cos", "Dropout", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid",
    "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg", "Not", "QuantizeLinear",
    "DequantizeLinear", "Reciprocal", "Relu",
    "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Swish", "Tanh", "ThresholdedRelu",
)  # fmt: skip
"""Operators that transform one tensor; their other inputs have a single element."""
BROADCAST = (
    "Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod",
    "Mul", "Or", "Pow", "Sub", "Sum", "Where", "Xor",
)  # fmt: skip
WITH_AXIS = {"Concat": 0, "Split": 0, "Softmax": -1, "LogSoftmax": -1, "ArgMax": 0, "ArgMin": 0}
"""Operators with an axis attribute, with its default."""
REDUCE = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
    "ReduceProd", "ReduceSum", "ReduceSumSquare",
)  # fmt: skip

Order = Sequence[int]


def tensors_of(node: "ir.Node") -> "tuple[ir.Value, ...]":
    """Returns the inputs whose order of dimensions matters to a node; empty if the node is not agnostic."""
    kinds: tuple[tuple[tuple[str, ...], Callable[[ir.Node], bool]], ...] = (
        (UNARY, _is_unary),
        (BROADCAST, lambda _: True),
        (tuple(WITH_AXIS), _has_axis),
        (REDUCE, _reduces_known_axes),
        (("Pad",), _pads_all_axes),
        (("Slice",), _slices_known_axes),
    )
    for names, holds in kinds:
        if is_op(node, *names):
            inputs = [value for value in node.inputs if value is not None]
            if not inputs or not holds(node) or any(output.shape is None for output in _named(node)):
                return ()
            return tuple(inputs) if names is BROADCAST or is_op(node, "Concat") else (inputs[0],)
    return ()


def _named(node: "ir.Node") -> "list[ir.Value]":
    return [output for output in node.outputs if output.name]


def _is_unary(node: "ir.Node") -> bool:
    others = [constant(value) for value in node.inputs[1:] if value is not None]
    return len(_named(node)) == 1 and all(other is not None and other.size == 1 for other in others)


def _has_axis(node: "ir.Node") -> bool:
    """Whether the axis of a node can be changed: it keeps the rank, and the sizes of a Split are constant."""
    if is_op(node, "ArgMax", "ArgMin"):
        return bool(integer(node, "keepdims", 1))
    if is_op(node, "Split"):
        return len(node.inputs) < 2 or node.inputs[1] is None or constant(node.inputs[1]) is not None
    return True


def _reduces_known_axes(node: "ir.Node") -> bool:
    return bool(integer(node, "keepdims", 1)) and (
        len(node.inputs) < 2 or node.inputs[1] is None or constant(node.inputs[1]) is not None
    )


def _pads_all_axes(node: "ir.Node") -> bool:
    if "pads" in node.attributes:
        return True
    return len(node.inputs) < 4 and constant(node.inputs[1]) is not None


def _slices_known_axes(node: "ir.Node") -> bool:
    return len(node.inputs) > 1 and all(v is None or constant(v) is not None for v in node.inputs[1:])


def reorder_axes(node: "ir.Node", order: Order, graph: "ir.Graph", stem: str) -> None:
    """Changes the axes of a node from those of y to those of x; new constants are named after `stem`."""
    rank = len(order)
    if is_op(node, *WITH_AXIS):
        axis = integer(node, "axis", WITH_AXIS[node.op_type])
        _set_axis(node, order[axis % rank])
    elif is_op(node, *REDUCE):
        _reorder_reduced_axes(node, order, graph, stem)
    elif is_op(node, "Pad"):
        _reorder_pads(node, order, graph, stem)
    elif is_op(node, "Slice"):
        _reorder_sliced_axes(node, order, graph, stem)


def _set_axis(node: "ir.Node", axis: int) -> None:
    import onnx_ir as ir

    node.attributes["axis"] = ir.AttrInt64("axis", int(axis))


def _reorder_reduced_axes(node: "ir.Node", order: Order, graph: "ir.Graph", stem: str) -> None:
    import onnx_ir as ir

    if "axes" in node.attributes:
        axes = [order[axis % len(order)] for axis in node.attributes["axes"].as_ints()]
        node.attributes["axes"] = ir.AttrInt64s("axes", axes)
    elif len(node.inputs) > 1 and (reduced := constant(node.inputs[1])) is not None:
        axes = [order[int(axis) % len(order)] for axis in reduced.reshape(-1)]
        node.replace_input_with(1, new_weight(graph, f"{stem}_axes", np.asarray(axes, np.int64)))


def _reorder_pads(node: "ir.Node", order: Order, graph: "ir.Graph", stem: str) -> None:
    import onnx_ir as ir

    pads = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    amounts = list(node.attributes["pads"].as_ints()) if pads is None else [int(n) for n in pads]
    rank, moved = len(order), [0] * len(amounts)
    for axis, place in enumerate(order):
        moved[place], moved[rank + place] = amounts[axis], amounts[rank + axis]
    if pads is None:
        node.attributes["pads"] = ir.AttrInt64s("pads", moved)
    else:
        node.replace_input_with(1, new_weight(graph, f"{stem}_pads", np.asarray(moved, np.int64)))


def _reorder_sliced_axes(node: "ir.Node", order: Order, graph: "ir.Graph", stem: str) -> None:
    sliced = constant(node.inputs[3]) if len(node.inputs) > 3 else None
    starts = constant(node.inputs[1])
    count = len(starts) if starts is not None else 0
    axes = list(range(count)) if sliced is None else [int(axis) for axis in sliced]
    if len(node.inputs) < 4:
        node.resize_inputs(4)
    kind = np.int64 if starts is None else starts.dtype  # all inputs have one type
    moved = np.asarray([order[axis % len(order)] for axis in axes], kind)
    node.replace_input_with(3, new_weight(graph, f"{stem}_axes", moved))
