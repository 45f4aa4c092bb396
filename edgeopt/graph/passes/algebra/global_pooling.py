"""Replacement of reductions and pools over a whole picture by global pooling, for which runtimes have kernels.

ReduceMean(x, axes = all but batch and channel, keepdims = 1)  =  GlobalAveragePool(x), the same for ReduceMax
AveragePool(x, kernel = the picture, no pads)                  =  GlobalAveragePool(x), the same for MaxPool
"""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, constant, is_op, label
from edgeopt.graph.passes.knowledge.linear import pads
from edgeopt.graph.shapes.sizes import picture_may_be_empty

if TYPE_CHECKING:
    import onnx_ir as ir

# Below four dimensions, a mean over the last axis usually belongs to a normalization, not a picture.
_DIMENSIONS = (4, 5)  # no runtime supports more
_POOLS = {"ReduceMean": "GlobalAveragePool", "ReduceMax": "GlobalMaxPool"}


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    import onnx_ir as ir

    model, notes = context.copy(model), Notes()
    for node in [node for part in model.graphs() for node in part]:  # functions are inlined before
        if is_op(node, *_POOLS) and _over_a_picture(node):
            kind, reason = _POOLS[node.op_type], _why_not(node)
            is_open = picture_may_be_empty(node.inputs[0])
            if is_open and context.empty_inputs:
                reason = reason or "its picture may be empty, for which runtimes do not support global pooling"
        elif is_op(node, "AveragePool", "MaxPool") and _takes_all(node):
            kind, reason, is_open = f"Global{node.op_type}", _why_not_type(node), False
        else:
            continue
        if reason:
            notes.refuse(reason, label(node))
            continue
        result = node.outputs[0]
        pool = ir.node(kind, [node.inputs[0]], name=node.name)
        pool.outputs[0].name, pool.outputs[0].shape, pool.outputs[0].type = result.name, result.shape, result.type
        assert node.graph is not None  # noqa: S101 - it was found in one
        node.graph.insert_before(node, pool)
        result.replace_all_uses_with(pool.outputs[0], replace_graph_outputs=True)
        node.graph.remove(node, safe=True)
        notes.nonempty_only |= is_open
        notes.did("replaced pooling of whole pictures by global pooling", label(node))
    return notes.result(model)


def _over_a_picture(node: "ir.Node") -> bool:
    """Whether a reduction covers all axes but batch and channel of a tensor with a picture's dimensions."""
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    axes = _axes(node)
    if shape is None or axes is None or len(shape) not in _DIMENSIONS:
        return False
    return {axis % len(shape) for axis in axes} == set(range(2, len(shape)))


def _takes_all(pool: "ir.Node") -> bool:
    """Whether a pool's window covers exactly the whole picture."""
    shape = pool.inputs[0].shape if pool.inputs[0] is not None else None
    if shape is None or pads(pool) or len([output for output in pool.outputs if output.name]) > 1:
        return False
    dilated = "dilations" in pool.attributes and any(n != 1 for n in pool.attributes["dilations"].as_ints())
    return not dilated and list(shape)[2:] == list(pool.attributes["kernel_shape"].as_ints())


def _axes(node: "ir.Node") -> list[int] | None:
    """Returns the constant axes of a reduction, from the attribute or, since opset 18, the second input."""
    if (attribute := node.attributes.get("axes")) is not None:
        return list(attribute.as_ints())
    array = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    return None if array is None else [int(axis) for axis in array.reshape(-1)]


def _why_not(node: "ir.Node") -> str | None:
    keepdims = node.attributes.get("keepdims")
    if keepdims is not None and keepdims.as_int() == 0:
        return "it drops the dimensions that pooling keeps"
    if reason := _why_not_type(node):
        return reason
    if any(is_op(user, "Sub") for user in node.outputs[0].consumers()):
        return "it is part of a normalization, which runtimes fuse as a whole"
    return None


def _why_not_type(node: "ir.Node") -> str | None:
    import onnx_ir as ir

    value = node.inputs[0]
    if value is not None and value.dtype in {ir.DataType.FLOAT, ir.DataType.FLOAT16}:
        return None
    kind = value.dtype.name.lower() if value is not None and value.dtype is not None else "unknown numbers"
    return f"global pooling of {kind} is not supported by every runtime"


PASS = Pass(
    "global-pooling",
    "pooling and reductions over whole pictures become global pooling",
    apply,
    tolerance_db=100.0,
    finite_only=True,  # GlobalMaxPool loses NaN, and gives the lowest number for minus infinity
    nonempty_only=True,
)
