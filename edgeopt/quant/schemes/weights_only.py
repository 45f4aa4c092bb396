"""Schemes that store weights in fewer bits and compute in float."""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.graph.ledger import Change
from edgeopt.graph.passes.base import plural
from edgeopt.quant.layers import PRODUCTS, nodes_by_key
from edgeopt.quant.records import Layer
from edgeopt.quant.schemes import blocks
from edgeopt.quant.schemes.base import Scheme, SchemeContext
from edgeopt.quant.schemes.blocks import grouped, inputs_count
from edgeopt.quant.schemes.writer import Writer, along, rounded_weight, weight_scales

if TYPE_CHECKING:
    import onnx_ir as ir

_EIGHT, _FOUR = 8, 4
_LARGEST = 127


def fits(bits: int, layer: Layer, context: SchemeContext) -> str:  # noqa: ARG001 - every scheme function has these parameters
    if bits == _FOUR or layer.operator in blocks.MATRIX_PRODUCTS:
        return blocks.no_matrix(layer)
    return layer.reason


def fake_weights(bits: int, weight: Array, layer: Layer, context: SchemeContext) -> Array:
    if layer.operator in blocks.MATRIX_PRODUCTS:
        return blocks.fake_weights(bits, weight, layer, context)
    axis = layer.channel_axis
    scales = weight_scales(weight, axis, _LARGEST)
    return (rounded_weight(weight, scales, axis, _LARGEST) * along(scales, axis, weight.ndim)).astype(np.float32)


def fake_input(
    bits: int, graph: "ir.Graph", node: "ir.Node", value: "ir.Value", layer: Layer, context: SchemeContext
) -> "ir.Value":
    if bits == _FOUR and blocks.runs_n_bits(context):
        return grouped(graph, node, value, inputs_count(layer), blocks.block_size(layer, context))
    return value


def write(bits: int, model: "ir.Model", layers: tuple[Layer, ...], context: SchemeContext) -> tuple[Change, ...]:
    writer, found = Writer(model.graph), nodes_by_key(model.graph)
    for layer in layers:
        nodes = [found[key] for key in layer.nodes]
        if layer.operator in blocks.MATRIX_PRODUCTS:
            # Products with 4-bit weights are bound by memory, and ONNX Runtime's fast kernels for them round
            # activations.
            level = blocks.EIGHT_BITS if bits == _FOUR else blocks.FLOATS
            blocks.write_blocks(writer, layer, nodes, context, bits, level)
        elif layer.operator == "Gather":
            _write_rows(writer, layer, nodes, context)
        else:
            _write_channels(writer, layer, nodes, context)
    keys = tuple(key for layer in layers for key in layer.nodes)
    return (Change(f"stored the weights of {plural(len(keys), 'node')} in {bits} bits", keys),)


def _write_channels(writer: Writer, layer: Layer, nodes: "list[ir.Node]", context: SchemeContext) -> None:
    """Writes weights with a scale for each channel, dequantized before the products read them."""
    import onnx_ir as ir

    weight, axis = blocks.weights_of(layer, nodes[0], context), layer.channel_axis
    scales = weight_scales(weight, axis, _LARGEST)
    stored = writer.constant(f"{layer.weight}_quantized", rounded_weight(weight, scales, axis, _LARGEST))
    scale = writer.constant(f"{layer.weight}_scale", scales)
    up = writer.node(
        "DequantizeLinear",
        (stored, scale),
        f"{layer.weight}_dequantized",
        like=nodes[0].inputs[1],
        kind=ir.DataType.FLOAT,
        attributes={"axis": axis} if axis is not None else None,
    )
    writer.graph.insert_before(nodes[0], up)
    for node in nodes:
        node.replace_input_with(1, up.outputs[0])


def _write_rows(writer: Writer, layer: Layer, nodes: "list[ir.Node]", context: SchemeContext) -> None:
    """Writes a table in eight bits with a scale for each row; only the rows that are looked up are dequantized."""
    import onnx_ir as ir

    table = blocks.weights_of(layer, nodes[0], context)
    scales = weight_scales(table, 0, _LARGEST)
    stored = writer.constant(f"{layer.weight}_quantized", rounded_weight(table, scales, 0, _LARGEST))
    scale = writer.constant(f"{layer.weight}_scale", scales[:, None])
    for node in nodes:
        old, which = node.outputs[0], node.inputs[1]
        rows = writer.node("Gather", (stored, which), f"{old.name}_quantized", like=old, kind=ir.DataType.INT8)
        factors = writer.node("Gather", (scale, which), f"{old.name}_scale", kind=ir.DataType.FLOAT)
        cast = writer.node(
            "Cast",
            rows.outputs,
            f"{old.name}_cast",
            like=old,
            kind=ir.DataType.FLOAT,
            attributes={"to": int(ir.DataType.FLOAT)},
        )
        whole = writer.node(
            "Mul", (cast.outputs[0], factors.outputs[0]), f"{old.name}_rows", like=old, kind=ir.DataType.FLOAT
        )
        writer.graph.insert_before(node, [rows, factors, cast, whole])
        writer.take_over(old, whole.outputs[0])


def _define_scheme(bits: int, title: str, operators: tuple[str, ...], backends: tuple[str, ...]) -> Scheme:
    return Scheme(
        name=f"w{bits}",
        title=title,
        operators=operators,
        backends=backends,
        lowest_opset=21,
        needs_ranges=False,
        fits=partial(fits, bits),
        write=partial(write, bits),
        fake_weights=partial(fake_weights, bits),
        fake_input=partial(fake_input, bits),
    )


W8 = _define_scheme(
    _EIGHT,
    "weights in eight bits; what is computed stays float",
    (*PRODUCTS, "Gather"),
    ("openvino-cpu", "openvino-gpu", "openvino-npu", "onnxruntime-cpu", "onnxruntime-cuda"),
)
W4 = _define_scheme(
    _FOUR,
    "weights in four bits, by blocks",
    blocks.MATRIX_PRODUCTS,
    (
        "openvino-cpu",
        "openvino-gpu",
        "openvino-npu",
        "onnxruntime-cpu",
        "onnxruntime-cuda",
        "onnxruntime-directml",
    ),
)
