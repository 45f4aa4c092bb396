"""Scales the weights of a Conv, ConvTranspose or Gemm so that the BatchNormalization behind it goes away.

    y = scale * (conv(x, W) + b - mean) / sqrt(variance + epsilon) + shift
      = conv(x, W * f) + (b - mean) * f + shift          with f = scale / sqrt(variance + epsilon)

Computed in float64 and rounded once, which is closer to the original than float32 arithmetic.
"""

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

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray

LINEAR = ("Conv", "ConvTranspose", "Gemm")


def apply(model: "ir.Model", context: PassContext) -> PassResult:  # noqa: ARG001 - every pass has this signature
    """Folds every batch normalization that it can, in subgraphs too."""
    import onnx_ir as ir

    model, notes, done = model.clone(), Notes(), []
    for part in parts(model):
        for node in list(part):
            if not is_op(node, "BatchNormalization"):
                continue
            if not isinstance(part, ir.Graph):
                notes.refuse("it is inside a function, which can hold no weights", label(node))
            elif reason := _refusal(node):
                notes.refuse(reason, label(node))
            else:
                done.append(label(node))
                _fold(part, node)
    if done:
        notes.did(f"folded {plural(len(done), 'batch normalization')} into the weights before", *done)
    return notes.result(model)


def _refusal(norm: "ir.Node") -> str | None:
    linear = norm.inputs[0].producer() if norm.inputs[0] is not None else None
    if _integer(norm, "training_mode", 0) or any(output.name and output.uses() for output in norm.outputs[1:]):
        return "the batch normalization is in training mode: it depends on the data"
    if linear is None or not is_op(linear, *LINEAR):
        before = f"a {linear.op_type}" if linear is not None else "an input of the graph"
        return f"it follows {before}, not a Conv, ConvTranspose or Gemm"
    if linear.graph is not norm.graph:
        return f"the {linear.op_type} is outside the subgraph that holds the batch normalization"
    if linear.outputs[0].is_graph_output() or len(linear.outputs[0].uses()) > 1:
        return f"the output of the {linear.op_type} is used elsewhere too"
    if _integer(norm, "spatial", 1) != 1:
        return "the batch normalization has statistics for every pixel (spatial=0)"
    for value in (*linear.inputs[1:], *norm.inputs[1:]):
        if value is not None and constant(value) is None:
            return f"'{value.name}' is not constant"
    weights = constant(linear.inputs[1])
    if weights is None or weights.dtype.kind != "f":
        return "the weights are not floating-point numbers"
    if is_op(linear, "Gemm") and _shape_of_bias_spans_rows(linear):
        return "the bias of the Gemm differs from row to row"
    return None


def _shape_of_bias_spans_rows(gemm: "ir.Node") -> bool:
    bias = constant(gemm.inputs[2]) if len(gemm.inputs) > 2 else None
    return bias is not None and bias.ndim == 2 and bias.shape[0] != 1


def _fold(graph: "ir.Graph", norm: "ir.Node") -> None:
    import onnx_ir as ir

    linear = norm.inputs[0].producer()
    scale, shift, mean, variance = (_float64(value) for value in norm.inputs[1:5])
    epsilon = norm.attributes["epsilon"].as_float() if "epsilon" in norm.attributes else 1e-5
    factor = scale / np.sqrt(variance + epsilon)
    weights = constant(linear.inputs[1])
    assert weights is not None, "_refusal() has seen to it"  # noqa: S101 - tells mypy; never a user's doing
    has_bias = len(linear.inputs) > 2 and linear.inputs[2] is not None
    bias = _float64(linear.inputs[2]) if has_bias else np.zeros_like(mean)
    if is_op(linear, "Gemm"):
        bias = bias.reshape(-1) * (linear.attributes["beta"].as_float() if "beta" in linear.attributes else 1.0)
        linear.attributes.pop("beta", None)

    stem = norm.name or norm.outputs[0].name
    folded = (
        ("weight", _scaled(linear, weights.astype(np.float64), factor)),
        ("bias", np.broadcast_to((bias - mean) * factor + shift, factor.shape)),
    )
    linear.resize_inputs(3)
    for position, (role, array) in enumerate(folded, start=1):
        value = ir.Value(
            name=_free_name(graph, f"{stem}_folded_{role}"),
            const_value=ir.tensor(array.astype(weights.dtype)),
        )
        value.shape, value.type = value.const_value.shape, ir.TensorType(value.const_value.dtype)
        graph.register_initializer(value)
        linear.replace_input_with(position, value)
    # Cannot be refused: the linear node lies in the same graph and its output goes nowhere else.
    replace_value(norm.outputs[0], linear.outputs[0])
    graph.remove(norm, safe=True)


def _scaled(linear: "ir.Node", weights: "NDArray[Any]", factor: "NDArray[Any]") -> "NDArray[Any]":
    if is_op(linear, "Conv"):
        factors = factor.reshape(-1, *[1] * (weights.ndim - 1))
    elif is_op(linear, "Gemm"):
        factors = factor[:, None] if _integer(linear, "transB", 0) else factor[None, :]
    else:
        # ConvTranspose: (inputs, outputs of one group, kernel...); the inputs lie group after group.
        groups = _integer(linear, "group", 1)
        by_group = factor.reshape(groups, 1, -1, *[1] * (weights.ndim - 2))
        factors = np.repeat(by_group, weights.shape[0] // groups, axis=1).reshape(
            weights.shape[0], -1, *[1] * (weights.ndim - 2)
        )
    scaled: NDArray[Any] = weights * factors
    return scaled


def _float64(value: "ir.Value") -> "NDArray[Any]":

    array = constant(value)
    assert array is not None, "_refusal() has seen to it"  # noqa: S101 - tells mypy; never a user's doing
    return array.astype(np.float64)


def _integer(node: "ir.Node", name: str, default: int) -> int:
    return int(node.attributes[name].as_int()) if name in node.attributes else default


def _free_name(graph: "ir.Graph", wanted: str) -> str:
    name, number = wanted, 1
    while name in graph.initializers:
        number += 1
        name = f"{wanted}_{number}"
    return name


PASS = Pass("batchnorm-into-conv", "batch normalizations go into the weights before them", apply)
