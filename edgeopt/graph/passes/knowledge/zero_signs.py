"""Whether anything can tell -0 from +0: x + 0 is x, but for x = -0, where it is +0, and 1 / x has the other sign.

Zeros are followed to everything that is computed of them, until an operator gives the same for both. What is not
known here, and what the model gives out, can tell.
"""

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.graph.passes.base import constant, is_op
from edgeopt.graph.passes.knowledge.matching import scalar

if TYPE_CHECKING:
    import onnx_ir as ir

DEPTH = 8
_SAME_FOR_BOTH = (
    *("Abs", "Cos", "Cosh", "Exp", "HardSigmoid", "Log", "Sigmoid", "Softplus"),
    *("Softmax", "LogSoftmax", "Hardmax", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp"),
    *("ReduceSumSquare", "ArgMax", "ArgMin", "NonZero", "Shape", "Size", "IsNaN", "IsInf"),
    *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
)
_CARRY = (
    *("Add", "Sub", "Mul", "Neg", "Sum", "Mean", "Max", "Min", "Sqrt", "Floor", "Ceil", "Round", "Sign"),
    *("Sin", "Tan", "Asin", "Atan", "Sinh", "Tanh", "Asinh", "Atanh", "Erf"),
    *("Relu", "LeakyRelu", "PRelu", "Elu", "Selu", "Celu", "ThresholdedRelu", "Softsign", "Clip"),
    *("Gelu", "Mish", "Swish", "HardSwish"),
    *("Identity", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile", "Dropout"),
    *("Concat", "Split", "Slice", "Gather", "GatherND", "GatherElements", "Pad", "Where", "Trilu"),
    *("ScatterND", "ScatterElements", "DepthToSpace", "SpaceToDepth"),
    *("MatMul", "Gemm", "Einsum", "Conv", "ConvTranspose", "CumSum"),
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"),
    *("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"),
)
_CARRY_FIRST = ("Div", "BatchNormalization", "LayerNormalization", "RMSNormalization", "Resize")
"""What they do with their first input; a divisor or a variance of zero is another matter."""
_NEVER = (
    *("Abs", "Cosh", "Exp", "Sigmoid", "Softmax", "Softplus"),
    *("ReduceL1", "ReduceL2", "ReduceSumSquare"),
)
_MOVED = ("Identity", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand")


def tells_zeros_apart(value: "ir.Value") -> bool:
    """Whether the results of the model may depend on the sign of a zero in this value."""
    seen = {value}
    queue = deque([value])
    while queue:
        one = queue.popleft()
        if one.is_graph_output():
            return True
        for node, place in one.uses():
            if is_op(node, *_SAME_FOR_BOTH) or _absorbs(node, place):
                continue
            if not is_op(node, *_CARRY) and not (place == 0 and _carries_first(node)):
                return True
            new = [result for result in node.outputs if result not in seen]
            seen.update(new)
            queue.extend(new)
    return False


def _absorbs(node: "ir.Node", place: int) -> bool:
    """A sum with a number that is never zero; whole numbers, which have one zero; an exponent."""
    if is_op(node, "Add", "Sub"):
        other = constant(node.inputs[1 - place])
        return other is not None and other.dtype.kind != "c" and bool(other.all())
    if is_op(node, "Cast"):
        result = node.outputs[0].dtype
        return result is not None and (result.is_integer() or result.name == "BOOL")
    return place == 1 and is_op(node, "Pow")


def _carries_first(node: "ir.Node") -> bool:
    if is_op(node, "Pow"):
        exponent = scalar(node.inputs[1])
        return exponent is not None and exponent > 0
    if is_op(node, "Cast"):
        result = node.outputs[0].dtype
        return result is not None and result.is_floating_point()
    return is_op(node, *_CARRY_FIRST)


def never_negative_zero(value: "ir.Value | None", depth: int = DEPTH) -> bool:
    """Whether a value is known to hold no -0. A sum is -0 only where both of its terms are."""
    if value is None or depth == 0:
        return False
    if value.dtype is not None and (value.dtype.is_integer() or value.dtype.name == "BOOL"):
        return True
    array = constant(value)
    if array is not None:
        return not _has_negative_zero(array)
    node = value.producer()
    if node is None or is_op(node, *_NEVER):
        return node is not None
    if is_op(node, *_MOVED):
        return never_negative_zero(node.inputs[0], depth - 1)
    if is_op(node, "Mul"):
        return node.inputs[0] is node.inputs[1]
    if is_op(node, "Cast"):
        return never_negative_zero(node.inputs[0], depth - 1) and not _rounds_to_zero(node)
    return is_op(node, "Add") and any(never_negative_zero(one, depth - 1) for one in node.inputs)


def _rounds_to_zero(cast: "ir.Node") -> bool:
    """Whether small negative numbers may become zeros that keep their sign."""
    source = cast.inputs[0]
    return source is None or source.dtype is None or source.dtype.is_floating_point()


def _has_negative_zero(array: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]") -> bool:
    if array.dtype.kind in "biu":
        return False
    return bool((np.signbit(array.astype(np.float64)) & (array == 0)).any()) if array.dtype.kind != "c" else True
