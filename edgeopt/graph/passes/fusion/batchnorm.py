"""Folding of batch normalizations into the weights of adjacent linear operators, as scale and shift by channel."""

from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.graph.passes.base import (
    Notes,
    Pass,
    PassContext,
    PassResult,
    constant,
    is_op,
    label,
    parts,
    plural,
    replace_value,
)
from edgeopt.graph.passes.knowledge.linear import (
    Affine,
    channels_before,
    decimal,
    integer,
    pads,
    put_before,
    put_behind,
    why_not_behind,
    why_not_weights,
)
from edgeopt.graph.passes.knowledge.names import separate_names

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray


def why_not_affine(norm: "ir.Node") -> str | None:
    """Returns why a batch normalization is not a constant scale and shift per channel, as a sentence, or None."""
    # Before opset 14, more than one output means training mode, even if nothing reads it.
    if integer(norm, "training_mode", 0) or any(output.name for output in norm.outputs[1:]):
        return "the batch normalization is in training mode: it depends on the data"
    if integer(norm, "spatial", 1) != 1:
        return "the batch normalization has statistics for every pixel (spatial=0)"
    for value in norm.inputs[1:]:
        if value is not None and constant(value) is None:
            return f"'{value.name}' is not constant"
    affine = affine_of(norm)
    if not (np.isfinite(affine.factor).all() and np.isfinite(affine.shift).all()):
        return "its result is not finite, for example because of a variance of zero"
    return None


def affine_of(norm: "ir.Node") -> Affine:
    """Computes f = scale / sqrt(variance + epsilon) and s = shift - mean * f."""
    scale, shift, mean, variance = (_float64(value) for value in norm.inputs[1:5])
    with np.errstate(all="ignore"):  # why_not_affine() reports it
        factor = scale / np.sqrt(variance + decimal(norm, "epsilon", 1e-5))
        return Affine(factor, shift - mean * factor)


def _float64(value: "ir.Value | None") -> "NDArray[Any]":
    array = constant(value)
    assert array is not None, "why_not_affine() has seen to it"  # noqa: S101 - tells mypy; never a user's doing
    return array.astype(np.float64)


LINEAR = ("Conv", "ConvTranspose", "Gemm")


def apply_into_conv(model: "ir.Model", context: PassContext) -> PassResult:
    """Folds a BatchNormalization after a Conv, ConvTranspose or Gemm into its weights.

    y = scale * (conv(x, W) + b - mean) / sqrt(variance + epsilon) + shift
      = conv(x, W * f) + (b - mean) * f + shift          with f = scale / sqrt(variance + epsilon)
    """
    model, notes, done = context.copy(model), Notes(), []
    graphs = set(model.graphs())
    for part in parts(model):
        for node in list(part):
            if not is_op(node, "BatchNormalization"):
                continue
            if part not in graphs:
                notes.refuse("it is inside a function, which cannot contain weights", label(node))
            elif reason := _refusal(node, context.folded_limit_bytes) or _put(part, node):
                notes.refuse(reason, label(node))
            else:
                done.append(label(node))
                linear = node.inputs[0].producer()
                # Always succeeds: the linear node is in the same graph and its output has no other reader.
                replace_value(node.outputs[0], linear.outputs[0])
                part.remove(node, safe=True)
    if done:
        notes.did(f"folded {plural(len(done), 'batch normalization')} into the weights before", *done)
        separate_names(model)
    return notes.result(model)


def _put(part: "ir.Graph", norm: "ir.Node") -> str | None:
    linear = norm.inputs[0].producer()
    return put_behind(part, linear, affine_of(norm), norm.name or norm.outputs[0].name)


def _refusal(norm: "ir.Node", limit_bytes: int) -> str | None:
    if reason := why_not_affine(norm):
        return reason
    linear = norm.inputs[0].producer() if norm.inputs[0] is not None else None
    if linear is None or not is_op(linear, *LINEAR):
        before = f"a {linear.op_type}" if linear is not None else "an input of the graph"
        return f"it follows {before}, not a Conv, ConvTranspose or Gemm"
    return why_not_behind(linear, norm, limit_bytes)


INTO_CONV = Pass(
    "batchnorm-into-conv",
    "batch normalizations go into the weights before them",
    apply_into_conv,
    tolerance_db=100.0,
)

_LINEAR = ("Conv", "Gemm")


def apply_before_conv(model: "ir.Model", context: PassContext) -> PassResult:
    """Folds a BatchNormalization into the weights of the Conv or Gemm that is its only reader.

        conv(f * x + s, W) + b  =  conv(x, W f) + (W s + b)

    This requires a convolution without padding or a normalization without shift, because padding is not
    normalized.
    """
    model, notes, done = context.copy(model), Notes(), []
    for part in model.graphs():  # functions are inlined before; they can hold no weights
        for node in list(part):
            linear = _reader(node) if is_op(node, "BatchNormalization") else None
            if linear is None:
                continue
            stem = node.name or node.outputs[0].name or "batchnorm"
            reason = _why_not(node, linear, context.folded_limit_bytes)
            if reason := reason or put_before(part, linear, affine_of(node), stem):
                notes.refuse(reason, label(node))
                continue
            linear.replace_input_with(0, node.inputs[0])
            part.remove(node, safe=True)
            done.append(label(node))
    if done:
        notes.did(f"folded {plural(len(done), 'batch normalization')} into the weights after", *done)
        separate_names(model)
    return notes.result(model)


def _reader(norm: "ir.Node") -> "ir.Node | None":
    """Returns the Conv or Gemm that reads a normalization as its data input, else None."""
    uses = list(norm.outputs[0].uses())
    if not uses or not is_op(uses[0].node, *_LINEAR) or uses[0].idx != 0:
        return None
    return uses[0].node


def _why_not(norm: "ir.Node", linear: "ir.Node", limit_bytes: int) -> str | None:
    reason = why_not_affine(norm) or why_not_weights(linear, limit_bytes)
    if reason:
        return reason
    result = norm.outputs[0]
    if result.is_graph_output() or len(result.uses()) > 1:
        return "its output is used elsewhere too"
    if linear.graph is not norm.graph:
        return f"the {linear.op_type} after it is in another graph"
    if is_op(linear, "Gemm") and integer(linear, "transA", 0):
        return "the Gemm reads its input transposed"
    affine = affine_of(norm)
    if affine.factor.size != channels_before(linear):
        return f"the {linear.op_type} reads different channels than it writes"
    if affine.shifts and is_op(linear, "Conv") and pads(linear):
        return "the convolution pads with zeros, which are not normalized"
    return None


BEFORE_CONV = Pass(
    "batchnorm-before-conv",
    "batch normalizations go into the weights after them",
    apply_before_conv,
    tolerance_db=100.0,
)
