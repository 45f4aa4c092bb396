"""Matrix products with weights in blocks, as ONNX Runtime and OpenVINO want them written."""

from typing import TYPE_CHECKING

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.graph.nodes import constant
from edgeopt.quant.forms.base import FormContext
from edgeopt.quant.forms.blocks import Blocks, as_matrix, in_blocks, inputs_count
from edgeopt.quant.forms.writer import Writer
from edgeopt.quant.records import Layer

if TYPE_CHECKING:
    import onnx_ir as ir

MATRIX_PRODUCTS = ("MatMul", "Gemm")
_CONTRIBUTED = "com.microsoft"
# MatMulNBits: 1 computes in float32, 4 rounds activations to eight bits by blocks.
FLOATS, EIGHT_BITS = 1, 4


def weights_of(layer: Layer, node: "ir.Node", context: FormContext) -> Array:
    weight = context.weights.get(layer.weight)
    if weight is None:
        weight = constant(node.inputs[0 if node.op_type == "Gather" else 1])
    if weight is None:
        raise LookupError(f"The weights of '{layer.name}' are not constant.")
    return weight


def no_matrix(layer: Layer) -> str:
    """Why a layer is no product with a matrix of weights, as the end of a sentence."""
    if layer.reason:
        return layer.reason
    if layer.operator not in MATRIX_PRODUCTS or not layer.weight or layer.channel_axis is None:
        return "it is not a product with a weight matrix"
    return ""


def block_size(layer: Layer, context: FormContext) -> int:
    """The block size of a layer's weights: that of the settings if it fits the inputs, otherwise a column."""
    inputs, size = inputs_count(layer), context.settings.block_size
    if runs_n_bits(context):  # whose kernels take blocks of these sizes, and fill up the last
        return max(16, min(256, 1 << (max(size, 1) - 1).bit_length()))
    return size if 0 < size < inputs and inputs % size == 0 else inputs


def runs_n_bits(context: FormContext) -> bool:
    """Whether the backend has ONNX Runtime's own operator for weights in blocks."""
    return context.backend in {"onnxruntime-cpu", "onnxruntime-cuda", "onnxruntime-directml"}


def fake_weights(bits: int, weight: Array, layer: Layer, context: FormContext) -> Array:
    found = in_blocks(as_matrix(weight, layer), block_size(layer, context), bits).floats()
    return np.ascontiguousarray(found.T if layer.channel_axis == 0 else found)


def write_blocks(
    writer: Writer, layer: Layer, nodes: "list[ir.Node]", context: FormContext, bits: int, accuracy_level: int
) -> None:
    matrix = as_matrix(weights_of(layer, nodes[0], context), layer)
    blocks = in_blocks(matrix, block_size(layer, context), bits)
    if runs_n_bits(context):
        _write_n_bits(writer, layer, nodes, blocks, accuracy_level)
    else:
        _write_dequantized(writer, layer, nodes, blocks)


def _write_dequantized(writer: Writer, layer: Layer, nodes: "list[ir.Node]", blocks: Blocks) -> None:
    """As DequantizeLinear with a block size, which OpenVINO reads as compressed weights."""
    import onnx_ir as ir

    turned = layer.channel_axis == 0
    integers = blocks.integers.T if turned else blocks.integers
    single = len(blocks.scales) == 1
    scales = blocks.scales[0] if single else blocks.scales.T if turned else blocks.scales
    name, kind = layer.weight, ir.DataType.INT8 if blocks.bits > 4 else ir.DataType.INT4
    stored = writer.typed(f"{name}_quantized", np.ascontiguousarray(integers), kind)
    scale = writer.constant(f"{name}_scale", np.ascontiguousarray(scales))
    axis = layer.channel_axis if single else 1 if turned else 0
    up = writer.node(
        "DequantizeLinear",
        (stored, scale),
        f"{name}_dequantized",
        like=nodes[0].inputs[1],
        kind=ir.DataType.FLOAT,
        attributes={"axis": int(axis or 0), **({} if single else {"block_size": blocks.size})},
    )
    writer.graph.insert_before(nodes[0], up)
    for node in nodes:
        node.replace_input_with(1, up.outputs[0])


def _write_n_bits(
    writer: Writer, layer: Layer, nodes: "list[ir.Node]", blocks: Blocks, accuracy_level: int
) -> None:
    """As MatMulNBits, which ONNX Runtime has kernels for."""
    import onnx_ir as ir

    inputs, outputs = blocks.integers.shape
    count = len(blocks.scales)
    padded = np.zeros((count * blocks.size, outputs), np.int8)
    padded[:inputs] = blocks.integers
    shifted = (padded.astype(np.int16) + (1 << (blocks.bits - 1))).astype(np.uint8)
    rows: Array = shifted.T.reshape(outputs, count, blocks.size)
    if blocks.bits == 4:
        rows = rows[..., 0::2] | rows[..., 1::2] << 4
    stored = writer.constant(f"{layer.weight}_quantized", np.ascontiguousarray(rows))
    scale = writer.constant(f"{layer.weight}_scale", np.ascontiguousarray(blocks.scales.T).reshape(-1))
    attributes = {"K": inputs, "N": outputs, "bits": blocks.bits, "block_size": blocks.size}
    writer.graph.opset_imports.setdefault(_CONTRIBUTED, 1)
    for node in nodes:
        old, bias = node.outputs[0], node.inputs[2] if len(node.inputs) > 2 else None
        new = writer.node(
            "MatMulNBits",
            (node.inputs[0], stored, scale),
            f"{old.name}_{'product' if bias is not None else 'result'}",
            like=old,
            kind=ir.DataType.FLOAT,
            domain=_CONTRIBUTED,
            attributes={**attributes, "accuracy_level": accuracy_level},
        )
        made, result = [new], new.outputs[0]
        if bias is not None:
            added = writer.node("Add", (result, bias), f"{old.name}_result", like=old, kind=ir.DataType.FLOAT)
            made, result = [new, added], added.outputs[0]
        writer.graph.insert_before(node, made)
        writer.take_over(old, result)
