"""Element-wise arithmetic with constants: scale and shift, neutral operations, and the sign of zeros.

Adding or subtracting 0 and multiplying or dividing by 1 changes nothing. A constant counts as 0 or 1 only if every
element equals it in its own type: 1e-10 is not 0, and keeps a logarithm finite. The constant must not change the
shape of the result. Subtracting 0 and multiplying or dividing by 1 give x to the last bit, for infinities, NaN and
-0 too. x + 0 is +0 for x = -0, and 1 / x then has the other sign, so x + 0 is removed only if no later node
depends on the sign of a zero; x + (-0) is x. Zeros are followed through all later nodes up to operators that give
the same result for both. Unknown operators and the model's outputs count as dependent on the sign.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.graph.passes.base import constant, is_op
from edgeopt.graph.passes.knowledge.linear import FLOATS
from edgeopt.graph.passes.knowledge.matching import scalar

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray

LARGEST = 2.0**32
"""Largest factor, and inverse of the smallest, that may be merged. Beyond it, the merged factor could make numbers
overflow or lose digits that the separate factors preserve."""


@dataclass(frozen=True, slots=True)
class ScaleAndShift:
    """A step factor * source + shift in float64; both arrays have the shapes of the constants."""

    source: "ir.Value"
    factor: "NDArray[Any]"
    shift: "NDArray[Any]"


def step_of(node: "ir.Node | None") -> ScaleAndShift | None:
    """Returns a node's arithmetic with constants as a scale and shift of its other operand, or None.

    Factors above `LARGEST` or below its inverse give None, because merging them could overflow or lose digits.
    """
    step = _step_of(node)
    if step is None:
        return None
    factor = np.abs(step.factor)
    moderate = (factor == 0) | ((factor >= 1 / LARGEST) & (factor <= LARGEST))
    return step if moderate.all() else None


def _step_of(node: "ir.Node | None") -> ScaleAndShift | None:
    if node is None or not is_op(node, "Mul", "Div", "Add", "Sub", "Neg"):
        return None
    one: NDArray[Any] = np.ones(())
    zero: NDArray[Any] = np.zeros(())
    if is_op(node, "Neg"):
        source = node.inputs[0]
        return ScaleAndShift(source, np.negative(one), zero) if source is not None and _is_float(source) else None
    left, right = node.inputs
    first, second = constant(left), constant(right)
    if (first is None) == (second is None):
        return None
    source, number = (left, second) if second is not None else (right, first)
    if source is None or number is None or number.dtype.name not in FLOATS:
        return None
    exact = number.astype(np.float64)
    if is_op(node, "Add"):
        return ScaleAndShift(source, one, exact)
    if is_op(node, "Sub"):
        return ScaleAndShift(source, one, -exact) if second is not None else ScaleAndShift(source, -one, exact)
    if is_op(node, "Mul"):
        return ScaleAndShift(source, exact, zero)
    if second is None or not exact.all():
        return None  # c / x, or a division by zero, whose infinities a product would not give
    return ScaleAndShift(source, 1.0 / exact, zero)


@dataclass(frozen=True, slots=True)
class Chain:
    """Consecutive steps as one, factor * x + shift, with the largest added number after scaling."""

    factor: "NDArray[Any]"
    shift: "NDArray[Any]"
    largest: "NDArray[Any]"
    reason: str | None = None
    """Reason why merging the steps would change results by more than rounding; None if it would not."""


_DIGITS = 64.0
"""Factor of precision (six bits) that a cancelling sum may lose."""
_REACH = {"float16": 2.0**6}
_USUAL_REACH = 2.0**20


def chained(steps: "Sequence[ScaleAndShift]", dtype: "np.dtype[Any]") -> Chain:
    """Merges steps in their order into one, computed in float64."""
    factor, shift, largest = np.ones(()), np.zeros(()), np.zeros(())
    reason, smallest, widest = None, np.ones(()), np.ones(())
    with np.errstate(all="ignore"):  # the caller refuses overflows
        for step in steps:
            moved = shift * step.factor
            if lost(step.shift, moved, dtype):
                reason = "one of its constants would be rounded away beside another"
            factor, shift = factor * step.factor, moved + step.shift
            largest = np.maximum(largest * np.abs(step.factor), np.abs(step.shift))
            smallest, widest = np.minimum(smallest, np.abs(factor)), np.maximum(widest, np.abs(factor))
        if (np.abs(shift) * _DIGITS < largest).any():
            reason = "it adds a value and subtracts it again, and the rounding in between would be lost"
        reach, size = _REACH.get(dtype.name, _USUAL_REACH), np.abs(factor)
        if (widest > np.maximum(size, 1) * reach).any() or (smallest * reach < np.minimum(size, 1)).any():
            reason = "its intermediate values leave the range of its input and output"
    return Chain(factor, shift, largest, reason)


def lost(shift: "NDArray[Any]", beside: "NDArray[Any]", dtype: "np.dtype[Any]") -> bool:
    """Whether a shift is rounded away beside a constant but would not be beside the data, which may be 0."""
    with np.errstate(all="ignore"):
        vanished = (beside + shift).astype(dtype) == beside.astype(dtype)
    return bool((vanished & (shift != 0) & (beside != 0)).any())


def widens(source: "ir.Value", array: "NDArray[Any]") -> bool:
    """Whether arithmetic with a constant may enlarge a tensor by broadcasting."""
    if array.ndim == 0:
        return False
    shape = source.shape
    if shape is None or array.ndim > len(shape):
        return True
    sizes = list(shape)[len(shape) - array.ndim :]
    return any(have != want for have, want in zip(sizes, array.shape, strict=True) if want != 1)


def _is_float(value: "ir.Value") -> bool:
    return value.dtype is not None and value.dtype.is_floating_point()


SIGN = "adding 0 turns -0 into +0, and later nodes depend on the sign"


def arithmetic(node: "ir.Node") -> "ir.Value | str | None":
    """Returns the operand that a neutral operation passes on, why the sign of a zero prevents its removal, or
    None."""
    places = (1, 0) if is_op(node, "Add", "Mul") else (1,)
    for place in places:
        x, array = node.inputs[1 - place], constant(node.inputs[place])
        if x is None or array is None or not _is_neutral(node, array) or widens(x, array):
            continue
        if (
            _makes_zeros_positive(node, array)
            and not never_negative_zero(x)
            and tells_zeros_apart(node.outputs[0])
        ):
            return SIGN
        return x
    return None


def _is_neutral(node: "ir.Node", array: "NDArray[Any]") -> bool:
    if array.dtype.kind in "OSU" or array.dtype.name.startswith("complex"):
        return False
    neutral = 0 if is_op(node, "Add", "Sub") else 1
    first = array.reshape(-1)[:1]  # large weights usually differ in their first number
    return bool((first == neutral).all()) and bool((array == neutral).all())


def _makes_zeros_positive(node: "ir.Node", array: "NDArray[Any]") -> bool:
    if not is_op(node, "Add", "Sub") or array.dtype.kind in "biu":
        return False
    negative = np.signbit(array.astype(np.float64))
    return bool(negative.any() if is_op(node, "Sub") else (~negative).any())


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
"""Operators that carry the sign of a zero in their first input only, not in a divisor or a variance."""
_NEVER = (*("Abs", "Cosh", "Exp", "Sigmoid", "Softmax", "Softplus"), *("ReduceL1", "ReduceL2", "ReduceSumSquare"))
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


def may_divide_by(value: "ir.Value") -> bool:
    """Whether a later node may divide by a zero in this value, which gives infinity with the sign of the zero.

    Outside a branch and inside a loop, uses are not followed and count as divisions.
    """
    seen = {value}
    queue = deque([value])
    while queue:
        one = queue.popleft()
        # Only the main graph has opset imports.
        if one.is_graph_output() and one.graph is not None and not one.graph.opset_imports:
            return True
        for node, place in one.uses():
            if is_op(node, "Loop", "Scan"):
                return True
            if _absorbs(node, place) or is_op(node, *_SAME_FOR_BOTH):
                continue
            if is_op(node, "Reciprocal") or (place == 1 and is_op(node, "Div")):
                return True
            if place == 0 and is_op(node, "Pow") and not _carries_first(node):
                return True
            if is_op(node, *_CARRY) or (place == 0 and _carries_first(node)):
                new = [result for result in node.outputs if result not in seen]
                seen.update(new)
                queue.extend(new)
    return False


def _absorbs(node: "ir.Node", place: int) -> bool:
    """Whether a node's result is the same for both zeros: a sum with a nonzero number, an integer, an exponent."""
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
    """Whether a value is known to contain no -0; a sum is -0 only if both terms are."""
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
    """Whether a cast may round small negative numbers to zeros that keep their sign."""
    source = cast.inputs[0]
    return source is None or source.dtype is None or source.dtype.is_floating_point()


def _has_negative_zero(array: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]") -> bool:
    if array.dtype.kind in "biu":
        return False
    return bool((np.signbit(array.astype(np.float64)) & (array == 0)).any()) if array.dtype.kind != "c" else True
