"""Merging of affine changes per channel into the weights and bias of Conv, ConvTranspose, Gemm and MatMul.

The new weights are computed in float64 and rounded once.

    behind:   f * (W x + b) + s  =  (f W) x + (f b + s)
    before:   W (f * x + s) + b  =  (W f) x + (W s + b)
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.graph.passes.base import constant, is_op

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray

LINEAR = ("Conv", "ConvTranspose", "Gemm", "MatMul")
EPSILON = {"float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52, "bfloat16": 2.0**-7}
_SMALLEST_LIMIT = 64.0  # types of few bits round everything
FLOATS = tuple(EPSILON)
_BLOCK = 1 << 20  # numbers processed at a time, because float64 copies of large weights take much memory
_SPATIAL = ("Conv", "ConvTranspose")


@dataclass(frozen=True, slots=True)
class Affine:
    """An affine change f * x + s in float64, with one number for each channel or one for all."""

    factor: "NDArray[Any]"
    shift: "NDArray[Any]"

    @property
    def scales(self) -> bool:
        return bool((self.factor != 1).any())

    @property
    def shifts(self) -> bool:
        return bool(self.shift.any())

    @property
    def by_channel(self) -> bool:
        return max(self.factor.size, self.shift.size) > 1


def why_not_weights(linear: "ir.Node", limit_bytes: int) -> str | None:
    """Returns why the weights of a linear node cannot be changed, as a sentence, or None.

    Shared weights stay in the model beside the new ones, so they may be no larger than the limit.
    """
    for value in linear.inputs[1:]:
        if value is not None and _array(value) is None:
            quantized = is_op(value.producer(), "DequantizeLinear")
            return f"'{value.name}' is {'quantized' if quantized else 'not constant'}"
    weights = _array(linear.inputs[1])
    if weights is None or weights.dtype.name not in FLOATS:
        return "the weights are not floating-point numbers"
    if is_op(linear, "MatMul") and weights.ndim < 2:
        return "its weights are a vector, so its result has no channels"
    if is_op(linear, "Gemm") and (bias := _bias(linear)) is not None and bias.ndim == 2 and bias.shape[0] != 1:
        return "the bias of the Gemm differs from row to row"
    return why_not_copied(linear, limit_bytes)


def why_not_copied(linear: "ir.Node", limit_bytes: int) -> str | None:
    """Returns why the weights may not be duplicated (shared, and larger than the limit), as a sentence, or
    None."""
    value = linear.inputs[1]
    if value is None or value.const_value is None or value.const_value.nbytes <= limit_bytes:
        return None
    if len(value.uses()) > 1 or value.is_graph_output():
        return f"the weights '{value.name}' are also used elsewhere, and are too large to duplicate"
    return None


def spreads_weights(node: "ir.Node") -> bool:
    """Whether all readers of a node's result use it as weights, so that folding it would only take space.

    The weights of a MatMul are excluded: exporters repeat them for each matrix of a batch, and other passes match
    that.
    """
    uses = node.outputs[0].uses()
    return is_op(node, "Expand") and all(is_op(use.node, *_SPATIAL, "Gemm") and use.idx > 0 for use in uses)


def why_not_behind(linear: "ir.Node", user: "ir.Node", limit_bytes: int) -> str | None:
    """Returns why `user`, which reads the result of `linear`, cannot be merged into it, as a sentence, or None."""
    result = linear.outputs[0]
    if linear.graph is not user.graph:
        return f"the {linear.op_type} is outside the subgraph that holds it"
    if result.is_graph_output() or len(result.uses()) > 1:
        return f"the output of the {linear.op_type} is used elsewhere too"
    return why_not_weights(linear, limit_bytes)


def channels_behind(linear: "ir.Node") -> int:
    """Returns the number of output channels."""
    weights = weights_of(linear)
    if is_op(linear, "Conv"):
        return int(weights.shape[0])
    if is_op(linear, "ConvTranspose"):
        return int(weights.shape[1]) * integer(linear, "group", 1)
    if is_op(linear, "Gemm") and integer(linear, "transB", 0):
        return int(weights.shape[0])
    return int(weights.shape[-1])


def channels_before(linear: "ir.Node") -> int:
    """Returns the number of input channels."""
    weights = weights_of(linear)
    if is_op(linear, "Conv"):
        return int(weights.shape[1]) * integer(linear, "group", 1)
    if is_op(linear, "ConvTranspose"):
        return int(weights.shape[0])
    if is_op(linear, "Gemm") and integer(linear, "transB", 0):
        return int(weights.shape[1])
    return int(weights.shape[-2])


def channel_axis(linear: "ir.Node", rank: int | None) -> int | None:
    """Returns the channel axis of input and result; None if it depends on an unknown rank."""
    if is_op(linear, *_SPATIAL):
        return 1
    return None if rank is None else rank - 1


def by_channel(array: "NDArray[Any]", axis: int, rank: int, channels: int) -> "NDArray[Any] | None":
    """Returns a constant operand as one number per channel or for all; None if it differs along other axes."""
    if array.size == 1:
        return array.reshape(1).astype(np.float64) if array.ndim <= rank else None
    shape = (*[1] * (rank - array.ndim), *array.shape)
    if len(shape) != rank or shape[axis] != channels or array.size != channels:
        return None
    return array.reshape(-1).astype(np.float64)


def put_behind(graph: "ir.Graph", linear: "ir.Node", affine: Affine, stem: str) -> str | None:
    """Folds an affine change after a linear node into it; a MatMul, which has no bias, accepts no shift.

    If the numbers do not fit the type of the weights, it changes nothing and returns the reason as a sentence.
    """
    channels = channels_behind(linear)
    factor, shift = (np.broadcast_to(each, (channels,)) for each in (affine.factor, affine.shift))
    weights = weights_of(linear).astype(np.float64)
    has_bias = len(linear.inputs) > 2 and linear.inputs[2] is not None
    bias = _bias_by_channel(linear, channels)
    takes_bias = not is_op(linear, "MatMul") and (has_bias or affine.shifts)
    scales = affine.scales or decimal(linear, "alpha", 1.0) != 1
    with np.errstate(all="ignore"):
        weights *= _spread_behind(linear, weights, factor)
        moved = bias * factor + shift
    if reason := _why_not_fit(linear, weights, moved if takes_bias else None):
        return reason
    linear.attributes.pop("alpha", None)
    if scales:
        _replace(graph, linear, 1, weights, f"{stem}_folded_weight")
    if takes_bias:
        _set_bias(graph, linear, moved, stem)
    return None


def put_before(graph: "ir.Graph", linear: "ir.Node", affine: Affine, stem: str) -> str | None:
    """Folds an affine change before a linear node into it; a shift requires a bias and no padding.

    If the numbers do not fit the type of the weights, it changes nothing and returns the reason as a sentence.
    """
    channels = channels_before(linear)
    factor, shift = (np.broadcast_to(each, (channels,)) for each in (affine.factor, affine.shift))
    weights = weights_of(linear).astype(np.float64)
    spread = _spread_before(linear, weights, np.stack([factor, shift]))
    moved = None
    with np.errstate(all="ignore"):
        if affine.shifts:
            added = _summed_by_result(linear, weights * spread[1])
            moved = _bias_by_channel(linear, channels_behind(linear)) + added
        weights *= spread[0]
    if reason := _why_not_fit(linear, weights, moved):
        return reason
    if rounds_away(shift, weights_of(linear).dtype):
        return "it subtracts so much that the rest would be rounded away after the products"
    if affine.scales:
        _replace(graph, linear, 1, weights, f"{stem}_folded_weight")
    if moved is not None:
        _set_bias(graph, linear, moved, stem)
    return None


def fits(array: "NDArray[Any]", dtype: "np.dtype[Any]", precisely: bool = True) -> bool:
    """Whether a type represents numbers as finite and the largest with full precision."""
    lost = largest = 0.0
    flat = array.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        with np.errstate(all="ignore"):
            rounded = block.astype(dtype).astype(np.float64)
            if not np.isfinite(rounded).all():
                return False
            lost = max(lost, float(np.abs(rounded - block).max()))
        largest = max(largest, float(np.abs(block).max()))
    return not precisely or lost <= EPSILON[dtype.name] * largest


def pads(node: "ir.Node") -> bool:
    """Whether a convolution may add zeros around its input."""
    if "auto_pad" in node.attributes and node.attributes["auto_pad"].as_string() not in {"NOTSET", "VALID"}:
        return True
    return "pads" in node.attributes and any(node.attributes["pads"].as_ints())


def integer(node: "ir.Node", name: str, default: int) -> int:
    return int(node.attributes[name].as_int()) if name in node.attributes else default


def decimal(node: "ir.Node", name: str, default: float) -> float:
    return float(node.attributes[name].as_float()) if name in node.attributes else default


def new_weight(graph: "ir.Graph", name: str, array: "NDArray[Any]") -> "ir.Value":
    """Adds a weight to the graph under a free name."""
    import onnx_ir as ir

    free, number = name, 1
    while free in graph.initializers:
        number += 1
        free = f"{name}_{number}"
    value = ir.Value(name=free, const_value=ir.tensor(np.array(array, order="C"), name=free))
    value.shape, value.type = value.const_value.shape, ir.TensorType(value.const_value.dtype)
    graph.register_initializer(value)
    return value


def _array(value: "ir.Value | None") -> "NDArray[Any] | None":
    array = constant(value)
    return spread_out(value) if array is None else array


def weights_of(linear: "ir.Node") -> "NDArray[Any]":
    """Returns the weights of a node that `why_not_weights()` accepts, possibly as a view."""
    weights = _array(linear.inputs[1])
    assert weights is not None, "why_not_weights() has seen to it"  # noqa: S101 - tells mypy; never a user's doing
    return weights


def _bias(linear: "ir.Node") -> "NDArray[Any] | None":
    return _array(linear.inputs[2]) if len(linear.inputs) > 2 else None


def _bias_by_channel(linear: "ir.Node", channels: int) -> "NDArray[Any]":
    bias = _bias(linear)
    if bias is None:
        return np.zeros(channels)
    scale = decimal(linear, "beta", 1.0) if is_op(linear, "Gemm") else 1.0
    return np.broadcast_to(bias.astype(np.float64).reshape(-1) * scale, (channels,))


def rounds_away(shift: "NDArray[Any]", dtype: "np.dtype[Any]") -> bool:
    """Whether a shift is so large that sums with it are rounded to steps of about a thousandth or more.

    (x - 1e6) * 2 is exact for x near 1e6; x * 2 - 2e6 is not.
    """
    limit = max(_SMALLEST_LIMIT, 1e-3 / EPSILON[dtype.name])
    return bool(shift.size) and bool(np.abs(shift).max() > limit)


def _why_not_fit(linear: "ir.Node", weights: "NDArray[Any]", bias: "NDArray[Any] | None") -> str | None:
    dtype = weights_of(linear).dtype
    if not fits(weights, dtype):
        return f"the weights of the {linear.op_type} would leave the range of {dtype.name}"
    if bias is not None and not fits(bias, dtype, precisely=False):
        return f"the bias of the {linear.op_type} would leave the range of {dtype.name}"
    return None


def _set_bias(graph: "ir.Graph", linear: "ir.Node", bias: "NDArray[Any]", stem: str) -> None:
    if is_op(linear, "Gemm"):
        linear.attributes.pop("beta", None)
    if len(linear.inputs) < 3:
        linear.resize_inputs(3)
    _replace(graph, linear, 2, bias, f"{stem}_folded_bias")


def _replace(graph: "ir.Graph", linear: "ir.Node", place: int, array: "NDArray[Any]", name: str) -> None:
    dtype = weights_of(linear).dtype
    linear.replace_input_with(place, _as_small(graph, linear, place, array.astype(dtype), name))


def _as_small(graph: "ir.Graph", linear: "ir.Node", place: int, array: "NDArray[Any]", name: str) -> "ir.Value":
    """Makes a weight from an array; a weight that was expanded by a node stays so, to keep the file small."""
    if linear.inputs[place] is None or constant(linear.inputs[place]) is not None:
        return new_weight(graph, name, array)
    small = new_weight(graph, f"{name}_small", gathered(array))
    return expanded_before(linear, small, new_weight(graph, f"{name}_shape", np.asarray(array.shape)), name)


def _spread_behind(linear: "ir.Node", weights: "NDArray[Any]", factor: "NDArray[Any]") -> "NDArray[Any]":
    """Arranges numbers by output channel so that they multiply the weights."""
    if is_op(linear, "Conv"):
        spread = factor.reshape(-1, *[1] * (weights.ndim - 1))
    elif is_op(linear, "ConvTranspose"):
        # (inputs, results of one group, kernel...); the inputs lie group after group.
        groups = integer(linear, "group", 1)
        by_group = factor.reshape(groups, 1, -1)
        rows = np.repeat(by_group, weights.shape[0] // groups, axis=1).reshape(weights.shape[0], -1)
        spread = rows.reshape(*rows.shape, *[1] * (weights.ndim - 2))
    elif is_op(linear, "Gemm") and integer(linear, "transB", 0):
        spread = factor[:, None]
    else:
        spread = factor
    if is_op(linear, "Gemm"):
        spread = spread * decimal(linear, "alpha", 1.0)
    return spread


def _spread_before(linear: "ir.Node", weights: "NDArray[Any]", numbers: "NDArray[Any]") -> "NDArray[Any]":
    """Arranges numbers by input channel, row by row, so that they multiply the weights."""
    rows = len(numbers)
    if is_op(linear, "Conv"):
        # (results, inputs of one group, kernel...); the results lie group after group.
        groups = integer(linear, "group", 1)
        by_group = numbers.reshape(rows, groups, 1, -1)
        spread: NDArray[Any] = np.repeat(by_group, weights.shape[0] // groups, axis=2)
        spread = spread.reshape(rows, weights.shape[0], -1)
        return spread.reshape(*spread.shape, *[1] * (weights.ndim - 2))
    if is_op(linear, "ConvTranspose"):
        return numbers.reshape(rows, -1, *[1] * (weights.ndim - 1))
    if is_op(linear, "Gemm") and integer(linear, "transB", 0):
        return numbers[:, None, :]
    return numbers[:, :, None]


def _summed_by_result(linear: "ir.Node", products: "NDArray[Any]") -> "NDArray[Any]":
    """Sums the contributions of a constant input to each result; excludes ConvTranspose, whose borders have
    fewer."""
    if is_op(linear, "Conv"):
        by_result: NDArray[Any] = products.reshape(products.shape[0], -1).sum(axis=1)
        return by_result
    summed: NDArray[Any] = products.sum(axis=1 if integer(linear, "transB", 0) else -2)
    return summed * decimal(linear, "alpha", 1.0)


def spread_out(value: "ir.Value | None") -> "NDArray[Any] | None":
    """Returns the array of a ConstantOfShape or an Expand of constants, as a view that takes no memory."""
    node = value.producer() if value is not None else None
    if node is None or not is_op(node, "ConstantOfShape", "Expand"):
        return None
    filled = is_op(node, "ConstantOfShape")
    shape = constant(node.inputs[0] if filled else node.inputs[1])
    small = _filling(node) if filled else constant(node.inputs[0])
    if shape is None or small is None:
        return None
    sizes = tuple(int(dim) for dim in shape.reshape(-1))
    try:  # an Expand keeps a dimension of its input where the wanted shape has a 1
        return np.broadcast_to(small, sizes if filled else np.broadcast_shapes(small.shape, sizes))
    except ValueError:
        return None


def _filling(node: "ir.Node") -> "NDArray[Any]":
    if "value" not in node.attributes:
        return np.zeros((), np.float32)
    filling: NDArray[Any] = node.attributes["value"].as_tensor().numpy()
    return filling.reshape(())


def gathered(array: "NDArray[Any]") -> "NDArray[Any]":
    """Returns the smallest array that broadcasts to the same: axes along which nothing differs have length 1."""
    for axis in range(array.ndim):
        first = array.take([0], axis) if array.shape[axis] else array
        if array.shape[axis] > 1 and (array == first).all():
            array = first
    return array


def expanded_before(node: "ir.Node", small: "ir.Value", shape: "ir.Value", name: str) -> "ir.Value":
    """Adds an Expand in the same graph; its name may exist already, so that a name fix must follow."""
    import onnx_ir as ir

    made = ir.node("Expand", [small, shape], name=f"{name}_expand")
    result = made.outputs[0]
    sizes = constant(shape)
    assert sizes is not None and node.graph is not None  # noqa: S101, PT018 - the caller has just made both
    result.name, result.type, result.shape = name, small.type, ir.Shape([int(dim) for dim in sizes])
    node.graph.insert_before(node, made)
    return result
