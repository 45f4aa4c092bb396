"""What is usually done to a picture before the model goes into its first convolutions, where the user asks for it.

    conv((x * scale - mean) / deviation, W) + b  =  conv(x, W f) + (W s + b)
                                                    f = scale / deviation, s = -mean / deviation

The model then takes raw pixels. Zeros that a convolution pads stand for the mean of the pixels, so a Pad with that
value goes before it and it pads no more; where the channels have different means, padding cannot be kept.
"""

from typing import TYPE_CHECKING

import numpy as np

from edgeopt.errors import UsageError
from edgeopt.graph.passes.base import Normalization, Notes, Pass, PassContext, PassResult, is_op, label
from edgeopt.graph.passes.knowledge.linear import (
    Affine,
    channels_before,
    new_weight,
    pads,
    put_before,
    why_not_weights,
)
from edgeopt.graph.passes.knowledge.names import separate_names

if TYPE_CHECKING:
    import onnx_ir as ir


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    wanted = context.normalize
    source_model, model, notes = model, context.copy(model), Notes()
    if wanted is None:
        return notes.result(model)
    inputs = {value.name: value for value in model.graph.inputs if not value.is_initializer()}
    if wanted.input_name not in inputs:
        raise UsageError(
            f"The model has no input '{wanted.input_name}' to normalize; it takes: {', '.join(map(str, inputs))}.",
            "Name one of these.",
        )
    source = inputs[wanted.input_name]
    # What only asks for its shape does not see its values.
    readers = [use.node for use in source.uses() if not is_op(use.node, "Shape")]
    refusals = {label(node): reason for node in readers if (reason := _why_not(node, source, wanted, context))}
    if source.is_graph_output() or not readers:
        refusals["the graph"] = "the input is an output too, or nothing reads it"
    if refusals:
        for name, reason in refusals.items():
            notes.refuse(reason, name)
        return notes.result(model)
    deviation, mean = np.asarray(wanted.deviation, np.float64), np.asarray(wanted.mean, np.float64)
    affine = Affine(np.broadcast_to(wanted.scale / deviation, mean.shape), -mean / deviation)
    for conv in readers:
        if pads(conv) and affine.shifts:
            _pad_before(model.graph, conv, float(mean[0] / wanted.scale))
        if reason := put_before(model.graph, conv, affine, conv.name or conv.outputs[0].name or "conv"):
            refused = Notes()
            refused.refuse(reason, label(conv))
            return refused.result(source_model.clone())  # the others must not be changed alone
        notes.did(f"put the normalization of '{wanted.input_name}' into the weights", label(conv))
    separate_names(model)
    return notes.result(model)


def _why_not(node: "ir.Node", source: "ir.Value", wanted: Normalization, context: PassContext) -> str | None:
    if not is_op(node, "Conv") or node.inputs[0] is not source:
        return f"the input is read by a {node.op_type}, not only by convolutions"
    if node.graph is not source.graph:
        return "the convolution is in a subgraph"
    if reason := why_not_weights(node, context.folded_limit_bytes):
        return reason
    if len(wanted.mean) != len(wanted.deviation):
        return f"there are {len(wanted.mean)} means and {len(wanted.deviation)} deviations"
    if len(wanted.mean) not in {1, channels_before(node)}:
        return f"there are {len(wanted.mean)} means and {channels_before(node)} channels"
    if not pads(node) or not any(wanted.mean):
        return None
    if len(set(wanted.mean)) > 1:
        return "the convolution pads, and the channels have different means, so that no one value pads them all"
    if "pads" not in node.attributes or node.attributes.get_string("auto_pad", "NOTSET") != "NOTSET":
        return "the convolution chooses its padding when the model runs (auto_pad)"
    return None


def _pad_before(graph: "ir.Graph", conv: "ir.Node", value: float) -> None:
    import onnx_ir as ir

    amounts = list(conv.attributes["pads"].as_ints())
    half = len(amounts) // 2
    stem = conv.name or conv.outputs[0].name or "conv"
    source = conv.inputs[0]
    assert source is not None and source.dtype is not None  # noqa: S101, PT018 - an input of a model has a type
    places = np.asarray([0, 0, *amounts[:half], 0, 0, *amounts[half:]], np.int64)
    pad = ir.node(
        "Pad",
        [
            source,
            new_weight(graph, f"{stem}_pads", places),
            new_weight(graph, f"{stem}_pad_value", np.asarray(value, source.dtype.numpy())),
        ],
        name=f"{stem}_pad",
    )
    pad.outputs[0].name, pad.outputs[0].type = f"{source.name}_padded", source.type
    graph.insert_before(conv, pad)
    conv.replace_input_with(0, pad.outputs[0])
    conv.attributes["pads"] = ir.AttrInt64s("pads", [0] * len(amounts))


PASS = Pass(
    "normalization-into-conv",
    "the normalization of a picture goes into the first convolutions",
    apply,
    tolerance_db=100.0,
    on_request=True,
)
