"""Scheme with 8-bit weights, and 8-bit activations with a range found in each run, which needs no data."""

from typing import TYPE_CHECKING

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.graph.ledger import Change
from edgeopt.graph.passes.base import plural
from edgeopt.quant.layers import nodes_by_key
from edgeopt.quant.records import Layer
from edgeopt.quant.schemes import qdq
from edgeopt.quant.schemes.base import Scheme, SchemeContext
from edgeopt.quant.schemes.blocks import weights_of
from edgeopt.quant.schemes.writer import Writer, rounded_weight

if TYPE_CHECKING:
    import onnx_ir as ir

_OPERATORS = ("MatMul", "Gemm", "Conv")


def fits(layer: Layer, context: SchemeContext) -> str:  # noqa: ARG001 - every scheme function has these parameters
    if layer.reason:
        return layer.reason
    return "" if layer.operator in _OPERATORS else f"there is no integer {layer.operator}"


def fake_input(
    graph: "ir.Graph",
    node: "ir.Node",
    value: "ir.Value",
    layer: Layer,  # noqa: ARG001 - every scheme function has these parameters
    context: SchemeContext,  # noqa: ARG001
) -> "ir.Value":
    import onnx_ir as ir

    writer = Writer(graph, counted=True)
    integers, scale, zero = _rounded(writer, node, value)
    up = writer.node("DequantizeLinear", (integers, scale, zero), f"{value.name}_fake", like=value)
    up.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    graph.insert_before(node, up)
    return up.outputs[0]


def _rounded(writer: Writer, node: "ir.Node", value: "ir.Value") -> "tuple[ir.Value, ir.Value, ir.Value]":
    """Inserts a node that quantizes an activation, and returns its integers, scale and zero point."""
    import onnx_ir as ir

    names = [writer.name(f"{value.name}_{what}") for what in ("quantized", "scale", "zero_point")]
    kinds = (ir.DataType.UINT8, ir.DataType.FLOAT, ir.DataType.UINT8)
    results = [ir.Value(name=name, type=ir.TensorType(kind)) for name, kind in zip(names, kinds, strict=True)]
    results[0].shape, results[1].shape, results[2].shape = value.shape, ir.Shape(()), ir.Shape(())
    made = ir.node(
        "DynamicQuantizeLinear", [value], outputs=results, name=writer.name(f"{value.name}_DynamicQuantizeLinear")
    )
    writer.graph.insert_before(node, made)
    return results[0], results[1], results[2]


def write(model: "ir.Model", layers: tuple[Layer, ...], context: SchemeContext) -> tuple[Change, ...]:
    writer, found = Writer(model.graph), nodes_by_key(model.graph)
    order = {node: place for place, node in enumerate(model.graph)}
    nodes = sorted(
        ((found[key], layer) for layer in layers for key in layer.nodes), key=lambda pair: order[pair[0]]
    )
    rounded: dict[ir.Value, tuple[ir.Value, ir.Value, ir.Value]] = {}
    stored: dict[str, tuple[ir.Value, ir.Value]] = {}
    for node, layer in nodes:
        factors = []
        for place in (0, 1):
            value = node.inputs[place]
            if place == 1 and layer.weight:
                continue
            if value not in rounded:
                rounded[value] = _rounded(writer, node, value)
            factors.append(rounded[value])
        if layer.weight and layer.weight not in stored:
            stored[layer.weight] = _weights(writer, layer, node, context)
        _write_product(writer, node, factors, stored.get(layer.weight))
    keys = tuple(key for layer in layers for key in layer.nodes)
    what = f"rounded {plural(len(keys), 'product')} to eight bits, with ranges found in each run"
    return (Change(what, keys),)


def _weights(writer: Writer, layer: Layer, node: "ir.Node", context: SchemeContext) -> "tuple[ir.Value, ir.Value]":
    weight = weights_of(layer, node, context)
    axis = qdq.axis_of(layer, context)
    scales = qdq.scales_of(weight, layer, context)
    integers = rounded_weight(weight, scales, axis, qdq.largest(context))
    if node.op_type == "Gemm" and layer.channel_axis == 0:
        integers = np.ascontiguousarray(integers.T)
    if node.op_type == "Conv" and scales.ndim:
        scales = scales.reshape(-1, *([1] * (weight.ndim - 2)))
    return (
        writer.constant(f"{layer.weight}_quantized", integers),
        writer.constant(f"{layer.weight}_scale", scales),
    )


def _write_product(
    writer: Writer,
    node: "ir.Node",
    factors: "list[tuple[ir.Value, ir.Value, ir.Value]]",
    stored: "tuple[ir.Value, ir.Value] | None",
) -> None:
    """Writes a product of integers, converted to float by both scales, with the bias added afterwards."""
    import onnx_ir as ir

    old, first = node.outputs[0], factors[0]
    name = str(old.name)
    weight = stored if stored is not None else factors[1][:2]
    zeros = (first[2],) if stored is not None else (first[2], factors[1][2])
    operator = "ConvInteger" if node.op_type == "Conv" else "MatMulInteger"
    integers = writer.node(
        operator, (first[0], weight[0], *zeros), f"{name}_integers", like=old, kind=ir.DataType.INT32
    )
    if operator == "ConvInteger":
        integers.attributes.update(node.attributes)
    cast = writer.node(
        "Cast",
        integers.outputs,
        f"{name}_cast",
        like=old,
        kind=ir.DataType.FLOAT,
        attributes={"to": int(ir.DataType.FLOAT)},
    )
    scale = writer.node("Mul", (first[1], weight[1]), f"{name}_scale", kind=ir.DataType.FLOAT)
    product = writer.node(
        "Mul", (cast.outputs[0], scale.outputs[0]), f"{name}_result", like=old, kind=ir.DataType.FLOAT
    )
    made = [integers, cast, scale, product]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is not None:
        if operator == "ConvInteger":
            rank = len(node.inputs[1].shape)
            shape = writer.constant(f"{bias.name}_shape", np.array([1, -1, *([1] * (rank - 2))], np.int64))
            reshape = writer.node("Reshape", (bias, shape), f"{bias.name}_by_channel", kind=ir.DataType.FLOAT)
            made.append(reshape)
            bias = reshape.outputs[0]
        made.append(
            writer.node("Add", (product.outputs[0], bias), f"{name}_sum", like=old, kind=ir.DataType.FLOAT)
        )
    writer.graph.insert_before(node, made)
    writer.take_over(old, made[-1].outputs[0])


def fake_weights(weight: Array, layer: Layer, context: SchemeContext) -> Array:
    return qdq.fake_weights(weight, layer, context)


SCHEME = Scheme(
    name="int8-dynamic",
    title="eight bits for weights and activations, with ranges found in each run",
    operators=_OPERATORS,
    backends=("onnxruntime-cpu",),
    lowest_opset=13,
    needs_ranges=False,
    fits=fits,
    write=write,
    fake_weights=fake_weights,
    fake_input=fake_input,
)
