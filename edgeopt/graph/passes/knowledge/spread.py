"""Weights that a node spreads out when the model is loaded: a few numbers in the file, many in memory."""

from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.graph.passes.base import constant, is_op

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray


def spread_out(value: "ir.Value | None") -> "NDArray[Any] | None":
    """The array that a ConstantOfShape or an Expand of constants makes, as a view that takes no memory."""
    node = value.producer() if value is not None else None
    if node is None or not is_op(node, "ConstantOfShape", "Expand"):
        return None
    filled = is_op(node, "ConstantOfShape")
    shape = constant(node.inputs[0] if filled else node.inputs[1])
    small = _filling(node) if filled else constant(node.inputs[0])
    if shape is None or small is None:
        return None
    wanted = tuple(int(dim) for dim in shape.reshape(-1))
    try:  # an Expand keeps a dimension of its input where the wanted shape has a 1
        return np.broadcast_to(small, wanted if filled else np.broadcast_shapes(small.shape, wanted))
    except ValueError:
        return None


def _filling(node: "ir.Node") -> "NDArray[Any]":
    if "value" not in node.attributes:
        return np.zeros((), np.float32)
    filling: NDArray[Any] = node.attributes["value"].as_tensor().numpy()
    return filling.reshape(())


def gathered(array: "NDArray[Any]") -> "NDArray[Any]":
    """The smallest array that broadcasting makes the same of: axes along which nothing differs have length 1."""
    for axis in range(array.ndim):
        first = array.take([0], axis) if array.shape[axis] else array
        if array.shape[axis] > 1 and (array == first).all():
            array = first
    return array


def expanded_before(node: "ir.Node", small: "ir.Value", shape: "ir.Value", name: str) -> "ir.Value":
    """A new Expand in the same graph; its name may be taken, so that a name fix must follow."""
    import onnx_ir as ir

    made = ir.node("Expand", [small, shape], name=f"{name}_expand")
    result = made.outputs[0]
    wanted = constant(shape)
    assert wanted is not None and node.graph is not None  # noqa: S101, PT018 - the caller has just made both
    result.name, result.type, result.shape = name, small.type, ir.Shape([int(dim) for dim in wanted])
    node.graph.insert_before(node, made)
    return result
