"""A mean over a whole picture is global average pooling, for which runtimes have kernels in their own layouts.

ReduceMean(x, axes = all but batch and channel, keepdims = 1)  =  GlobalAveragePool(x)
"""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, constant, is_op, label, nodes_of

if TYPE_CHECKING:
    import onnx_ir as ir

# Below four dimensions a mean over the last axis is a normalization's far more often than a picture's.
_FEWEST_DIMENSIONS = 4


def apply(model: "ir.Model", context: PassContext) -> PassResult:  # noqa: ARG001 - every pass has this signature
    import onnx_ir as ir

    model, notes = model.clone(), Notes()
    for node in list(nodes_of(model)):
        if not is_op(node, "ReduceMean") or not _over_a_picture(node):
            continue
        if reason := _why_not(node):
            notes.refuse(reason, label(node))
            continue
        result = node.outputs[0]
        pool = ir.node("GlobalAveragePool", [node.inputs[0]], name=node.name)
        pool.outputs[0].name, pool.outputs[0].shape, pool.outputs[0].type = result.name, result.shape, result.type
        assert node.graph is not None  # noqa: S101 - it was found in one
        node.graph.insert_before(node, pool)
        result.replace_all_uses_with(pool.outputs[0], replace_graph_outputs=True)
        node.graph.remove(node, safe=True)
        notes.did("made means over whole pictures global pooling", label(node))
    return notes.result(model)


def _over_a_picture(node: "ir.Node") -> bool:
    """All axes but batch and channel of a tensor that has a picture's dimensions."""
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    axes = _axes(node)
    if shape is None or axes is None or len(shape) < _FEWEST_DIMENSIONS:
        return False
    return {axis % len(shape) for axis in axes} == set(range(2, len(shape)))


def _axes(node: "ir.Node") -> list[int] | None:
    """From the attribute, or, from opset 18 on, from the second input."""
    if (attribute := node.attributes.get("axes")) is not None:
        return list(attribute.as_ints())
    array = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    return None if array is None else [int(axis) for axis in array.reshape(-1)]


def _why_not(node: "ir.Node") -> str | None:
    import onnx_ir as ir

    keepdims = node.attributes.get("keepdims")
    if keepdims is not None and keepdims.as_int() == 0:
        return "it drops the dimensions that pooling keeps"
    value = node.inputs[0]
    if value is None or value.dtype not in {ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE}:
        return "pooling is for floating-point numbers only"
    if any(is_op(user, "Sub") for user in node.outputs[0].consumers()):
        return "it is part of a normalization, which runtimes fuse as a whole"
    return None


PASS = Pass("global-pooling", "means over whole pictures become global pooling", apply)
