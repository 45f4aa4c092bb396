"""Fusion of a Pad into the padding of the pool after it.

    AveragePool(Pad(x, p, 0))     =  AveragePool(x, pads = p, count_include_pad = 1)
    MaxPool(Pad(x, p, lowest))    =  MaxPool(x, pads = p)

A MaxPool ignores its padding, so the filling must be at or below all numbers: minus infinity, the lowest number of
the type, or zero after a Relu.
"""

from typing import TYPE_CHECKING

import numpy as np

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, constant, is_op, label
from edgeopt.graph.passes.knowledge.linear import integer, pads
from edgeopt.graph.shapes.sizes import picture_may_be_empty

if TYPE_CHECKING:
    import onnx_ir as ir

_NOT_NEGATIVE = ("Relu", "Sigmoid", "Softmax", "Abs", "HardSigmoid", "Exp")


def apply_pad_into_pool(model: "ir.Model", context: PassContext) -> PassResult:
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
    """Returns the paddings before and after each spatial axis, or why a Pad affects other axes."""
    pads = constant(pad.inputs[1]) if len(pad.inputs) > 1 else None
    if pads is None and "pads" not in pad.attributes:
        return "its padding is known only at run time"
    amounts = (pads if pads is not None else np.asarray(pad.attributes["pads"].as_ints())).astype(np.int64)
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
