"""Convolutions of one picture whose results are put together become one wider convolution.

    Concat(conv(x, W1) + b1, conv(x, W2) + b2, axis = 1)  =  conv(x, [W1; W2]) + [b1; b2]

They must be alike in all but their weights, and stand side by side in the Concat.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, constant, is_op, label
from edgeopt.graph.passes.knowledge.linear import integer, new_weight, why_not_copied
from edgeopt.graph.passes.knowledge.names import separate_names

if TYPE_CHECKING:
    import onnx_ir as ir


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    model, notes = context.copy(model), Notes()
    for part in model.graphs():  # functions are inlined before; they can hold no weights
        for concat in [node for node in part if is_op(node, "Concat") and _by_channel(node)]:
            for group in list(_groups(concat)):
                names = [label(node) for node in group]
                if reason := _why_not(concat, group, context.folded_limit_bytes):
                    notes.refuse(reason, *names)
                    continue
                _widen(part, concat, group)
                notes.did("made one convolution of several side by side", *names)
    separate_names(model)
    return notes.result(model)


def _by_channel(concat: "ir.Node") -> bool:
    """Whether it puts channels beside each other; a negative axis says so only where the rank is known."""
    axis, shape = integer(concat, "axis", 0), concat.outputs[0].shape
    return axis == 1 or (shape is not None and axis == 1 - len(shape))


def _groups(concat: "ir.Node") -> "Iterator[list[ir.Node]]":
    """Neighbours in a Concat that are convolutions of the same value, alike in their attributes."""

    def key(value: "ir.Value | None") -> object:
        conv = value.producer() if value is not None else None
        if conv is None or not is_op(conv, "Conv") or integer(conv, "group", 1) != 1:
            return id(value), "", ""
        attributes = sorted((name, str(a.value)) for name, a in conv.attributes.items() if name != "kernel_shape")
        weights = conv.inputs[1]
        shape = weights.shape if weights is not None else None
        return id(conv.inputs[0]), str(attributes), str(shape[1:] if shape is not None else id(weights))

    for _, values in groupby(concat.inputs, key):
        nodes = [value.producer() for value in values if value is not None]
        found = [node for node in nodes if node is not None and is_op(node, "Conv")]
        if len(found) > 1 and len(found) == len(nodes):
            yield found


def _why_not(concat: "ir.Node", group: "list[ir.Node]", limit_bytes: int) -> str | None:
    if len(set(map(id, group))) < len(group):
        return "the same result is put there twice"
    for conv in group:
        result = conv.outputs[0]
        if result.is_graph_output() or len(result.uses()) > 1:
            return "the output of one of the convolutions is used elsewhere too"
        if conv.graph is not concat.graph:
            return "one of the convolutions is outside the subgraph that holds the Concat"
        if constant(conv.inputs[1]) is None:
            return "the weights of one of the convolutions are not constant"
        if len(conv.inputs) > 2 and conv.inputs[2] is not None and constant(conv.inputs[2]) is None:
            return "the bias of one of the convolutions is not constant"
        if reason := why_not_copied(conv, limit_bytes):
            return reason
    return None


def _widen(part: "ir.Graph", concat: "ir.Node", group: "list[ir.Node]") -> None:
    first = group[0]
    arrays = [constant(conv.inputs[1]) for conv in group]
    weights = [array for array in arrays if array is not None]
    given = [constant(conv.inputs[2]) if len(conv.inputs) > 2 else None for conv in group]
    stem = first.name or first.outputs[0].name or "conv"
    first.replace_input_with(1, new_weight(part, f"{stem}_wider_weight", np.concatenate(weights)))
    if any(bias is not None for bias in given):
        biases = [
            np.zeros(len(w), w.dtype) if bias is None else bias for bias, w in zip(given, weights, strict=True)
        ]
        first.resize_inputs(3)
        first.replace_input_with(2, new_weight(part, f"{stem}_wider_bias", np.concatenate(biases)))
    gone = [conv.outputs[0] for conv in group[1:]]
    kept = [value for value in concat.inputs if not any(value is each for each in gone)]
    concat.resize_inputs(len(kept))
    for place, value in enumerate(kept):
        concat.replace_input_with(place, value)
    # What the others read is there before the first of them, so that the wider one may stay where that stood.
    first.outputs[0].shape = None
    for conv in group[1:]:
        part.remove(conv, safe=True)


PASS = Pass("parallel-convs", "convolutions side by side become one wider convolution", apply, tolerance_db=100.0)
