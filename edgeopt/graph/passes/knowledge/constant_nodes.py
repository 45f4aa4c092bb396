"""Constants that a pass puts before the node that needs them; later they become weights like all others."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir
    from numpy.typing import NDArray


def constant_before(node: "ir.Node", name: str, array: "NDArray[np.generic]") -> "ir.Value":
    """A new Constant in the same graph; its name may be taken, so that a name fix must follow."""
    import onnx_ir as ir

    tensor = ir.tensor(array, name=name)
    made = ir.node("Constant", [], attributes={"value": tensor})
    result = made.outputs[0]
    result.name, result.dtype, result.shape = name, tensor.dtype, ir.Shape(tensor.shape)
    assert node.graph is not None  # noqa: S101 - it was found in one
    node.graph.insert_before(node, made)
    return result
