"""Pads go into the pools after them, and what is taken over a whole picture is global pooling."""

from typing import TYPE_CHECKING

import numpy as np

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, constant, is_op, label
from edgeopt.graph.passes.knowledge.linear import integer, pads
from edgeopt.graph.passes.knowledge.sizes import picture_may_be_empty

if TYPE_CHECKING:
    import onnx_ir as ir

_NOT_NEGATIVE = ("Relu", "Sigmoid", "Softmax", "Abs", "HardSigmoid", "Exp")


def apply_pad_into_pool(model: "ir.Model", context: PassContext) -> PassResult:
    """A Pad in front of a pool becomes the pool's own.

        AveragePool(Pad(x, p, 0))     =  AveragePool(x, pads = p, count_include_pad = 1)
        MaxPool(Pad(x, p, lowest))    =  MaxPool(x, pads = p)

    A MaxPool ignores what it pads, so that only a filling at or below all numbers is the same: minus infinity, or
    the lowest number of the type; or zero behind a Relu, after which nothing is lower.
    """
    import onnx_ir as ir

    model, notes = context.copy(model), Notes()
    for part in model.graphs():  # functions are inlined before
        for pool in list(part):
            pad = pool.inputs[0].producer() if is_op(pool, "AveragePool", "MaxPool") and pool.inputs[0] else None
            if pad is None or not is_op(pad, "Pad"):
                continue
            begin_end = _spatial_pads(pad)
            reason = begin_end if isinstance(begin_end, str) else _why_not_padded(pad, pool, begin_end)
            is_open = picture_may_be_empty(pad.inputs[0])
            if is_open and context.empty_inputs:
                reason = reason or "its picture may be empty, which runtimes cannot pool"
            if reason or isinstance(begin_end, str):
                notes.refuse(reason or "", label(pad))
                continue
            pool.attributes["pads"] = ir.AttrInt64s("pads", begin_end)
            pool.attributes.pop("auto_pad", None)
            if is_op(pool, "AveragePool"):
                pool.attributes["count_include_pad"] = ir.AttrInt64("count_include_pad", 1)
            pool.replace_input_with(0, pad.inputs[0])
            part.remove(pad, safe=True)
            notes.nonempty_only |= is_open
            notes.did("let the pool pad", label(pad))
    return notes.result(model)


def _spatial_pads(pad: "ir.Node") -> list[int] | str:
    """Begins and ends of the spatial axes, or why it pads more than those."""
    given = constant(pad.inputs[1]) if len(pad.inputs) > 1 else None
    if given is None and "pads" not in pad.attributes:
        return "its padding is known only at run time"
    amounts = (given if given is not None else np.asarray(pad.attributes["pads"].as_ints())).astype(np.int64)
    if len(pad.inputs) > 3 and pad.inputs[3] is not None:
        axes, shape = constant(pad.inputs[3]), pad.inputs[0].shape if pad.inputs[0] is not None else None
        if axes is None or shape is None:
            return "the axes it pads are known only at run time"
        named = amounts.reshape(2, -1)
        amounts = np.zeros((2, len(shape)), np.int64)
        amounts[:, axes.astype(np.int64)] = named
        amounts = amounts.reshape(-1)
    half = len(amounts) // 2
    if (amounts < 0).any() or amounts[:2].any() or amounts[half : half + 2].any():
        return "it pads axes other than those of a picture, or crops"
    return [int(n) for n in (*amounts[2:half], *amounts[half + 2 :])]


def _why_not_padded(pad: "ir.Node", pool: "ir.Node", begin_end: list[int]) -> str | None:
    result = pad.outputs[0]
    if result.is_graph_output() or len(result.uses()) > 1:
        return "its output is used elsewhere too"
    if pad.graph is not pool.graph:
        return f"the {pool.op_type} after it is in another graph"
    if "mode" in pad.attributes and pad.attributes["mode"].as_string() != "constant":
        mode = pad.attributes["mode"].as_string()
        return f"it does not pad with a constant ({mode})"
    if pads(pool):
        return f"the {pool.op_type} after it pads too"
    kernel = pool.attributes["kernel_shape"].as_ints()
    if any(amount >= size for amount, size in zip(begin_end, (*kernel, *kernel), strict=True)):
        return f"its padding is as large as the window of the {pool.op_type}, which runtimes refuse"
    if (
        is_op(pool, "MaxPool")
        and "dilations" in pool.attributes
        and max(pool.attributes["dilations"].as_ints()) > 1
    ):
        return "the MaxPool after it is dilated, so its window may contain only padding"
    if integer(pool, "ceil_mode", 0):
        return f"the {pool.op_type} after it rounds its size up, which counts padding differently"
    if len(pool.outputs) > 1 and pool.outputs[1].name:
        return "the indices of the maxima are used, and they include the padding"
    return _why_not_filled(pad, pool)


def _why_not_filled(pad: "ir.Node", pool: "ir.Node") -> str | None:
    filling = 0.0
    if "value" in pad.attributes:
        filling = pad.attributes["value"].as_float()
    elif len(pad.inputs) > 2 and pad.inputs[2] is not None:
        number = constant(pad.inputs[2])
        if number is None:
            return "its padding value is known only at run time"
        filling = float(number.reshape(-1)[0])
    if is_op(pool, "AveragePool"):
        return None if filling == 0 else f"it pads with {filling:g}, and the average counts zeros"
    dtype = pad.inputs[0].dtype if pad.inputs[0] is not None else None
    lowest = float(dtype.min) if dtype is not None and dtype.is_floating_point() else -np.inf
    if filling <= lowest or (filling <= 0 and is_op(pad.inputs[0].producer(), *_NOT_NEGATIVE)):
        return None
    return f"it pads with {filling:g}, which could be the maximum"


# A window of minus infinity and padding has another maximum.
PAD_INTO_POOL = Pass(
    "pad-into-pool", "pads go into the pools after them", apply_pad_into_pool, finite_only=True, nonempty_only=True
)

# Below four dimensions a mean over the last axis is a normalization's far more often than a picture's.
_DIMENSIONS = (4, 5)  # no runtime pools over more
_POOLS = {"ReduceMean": "GlobalAveragePool", "ReduceMax": "GlobalMaxPool"}


def apply_global_pooling(model: "ir.Model", context: PassContext) -> PassResult:
    """What is taken over a whole picture is global pooling, for which runtimes have kernels in their own layouts.

    ReduceMean(x, axes = all but batch and channel, keepdims = 1)  =  GlobalAveragePool(x), the same for ReduceMax
    AveragePool(x, kernel = the picture, no pads)                  =  GlobalAveragePool(x), the same for MaxPool
    """
    import onnx_ir as ir

    model, notes = context.copy(model), Notes()
    for node in [node for part in model.graphs() for node in part]:  # functions are inlined before
        if is_op(node, *_POOLS) and _over_a_picture(node):
            kind, reason = _POOLS[node.op_type], _why_not_global(node)
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
    """All axes but batch and channel of a tensor that has a picture's dimensions."""
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    axes = _axes(node)
    if shape is None or axes is None or len(shape) not in _DIMENSIONS:
        return False
    return {axis % len(shape) for axis in axes} == set(range(2, len(shape)))


def _takes_all(pool: "ir.Node") -> bool:
    """Whether a pool takes all of a picture at once, and nothing but the picture."""
    shape = pool.inputs[0].shape if pool.inputs[0] is not None else None
    if shape is None or pads(pool) or len([output for output in pool.outputs if output.name]) > 1:
        return False
    dilated = "dilations" in pool.attributes and any(n != 1 for n in pool.attributes["dilations"].as_ints())
    return not dilated and list(shape)[2:] == list(pool.attributes["kernel_shape"].as_ints())


def _axes(node: "ir.Node") -> list[int] | None:
    """From the attribute, or, from opset 18 on, from the second input."""
    if (attribute := node.attributes.get("axes")) is not None:
        return list(attribute.as_ints())
    array = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    return None if array is None else [int(axis) for axis in array.reshape(-1)]


def _why_not_global(node: "ir.Node") -> str | None:
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


GLOBAL_POOLING = Pass(
    "global-pooling",
    "pooling and reductions over whole pictures become global pooling",
    apply_global_pooling,
    tolerance_db=100.0,
    finite_only=True,  # GlobalMaxPool loses NaN, and gives the lowest number for minus infinity
    nonempty_only=True,
)
