"""Schemes with a scale for each block of consecutive weights, and activations rounded by groups at run time."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.graph.nodes import constant
from edgeopt.quant.records import Layer
from edgeopt.quant.schemes.base import SchemeContext
from edgeopt.quant.schemes.writer import Writer

if TYPE_CHECKING:
    import onnx_ir as ir


_SMALLEST = 1e-30
# Clipping the largest of few steps makes all others finer; the best share differs between blocks.
_SHARES_OF_FEW_STEPS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)
_FEW = 4


@dataclass(frozen=True, slots=True)
class Blocks:
    """A matrix [inputs, outputs] of small integers, with a scale for each block of inputs of each output."""

    integers: Array
    """Weights as int8, [inputs, outputs]."""
    scales: Array
    """Scales as float32, [blocks, outputs]."""
    size: int
    bits: int

    def floats(self) -> Array:
        spread: Array = np.repeat(self.scales, self.size, axis=0)[: len(self.integers)]
        floats: Array = self.integers * spread
        return floats.astype(np.float32)


def in_blocks(matrix: Array, size: int, bits: int) -> Blocks:
    """Returns symmetric integers for a matrix [inputs, outputs]; the last block may be shorter."""
    inputs, outputs = matrix.shape
    count = -(-inputs // size)
    padded = np.zeros((count * size, outputs), np.float32)
    padded[:inputs] = matrix
    blocked = padded.reshape(count, size, outputs)
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    extreme = np.take_along_axis(blocked, np.abs(blocked).argmax(axis=1)[:, None], axis=1)[:, 0]
    if bits > _FEW:
        scales = _usable(np.abs(extreme) / high)
        integers = np.clip(np.rint(blocked / scales[:, None]), -high, high)
    else:
        # Negative numbers have one more step, so the sign of the scale maps the largest magnitude there.
        scales, integers = _best(blocked, _usable(extreme / low), low, high)
    return Blocks(integers.reshape(-1, outputs)[:inputs].astype(np.int8), scales, size, bits)


def _usable(scales: Array) -> Array:
    return np.where(np.abs(scales) < _SMALLEST, np.float32(1), scales).astype(np.float32)


def _best(blocked: Array, widest: Array, low: int, high: int) -> tuple[Array, Array]:
    """Returns the scale with the least squared error of a few for each block, and the rounded integers."""
    best = np.full(widest.shape, np.inf, np.float32)
    scales, integers = widest, np.zeros(blocked.shape, np.float32)
    for share in _SHARES_OF_FEW_STEPS:
        tried = (widest * np.float32(share)).astype(np.float32)
        rounded = np.clip(np.rint(blocked / tried[:, None]), low, high)
        error = np.square(rounded * tried[:, None] - blocked).sum(axis=1)
        better = error < best
        best = np.where(better, error, best)
        scales = np.where(better, tried, scales)
        integers = np.where(better[:, None], rounded, integers)
    return scales.astype(np.float32), integers


def as_matrix(weight: Array, layer: Layer) -> Array:
    """Returns the weights of a matrix product as [inputs, outputs]."""
    return weight.T if layer.channel_axis == 0 else weight


def inputs_count(layer: Layer) -> int:
    """Returns the number of inputs that a matrix product adds up for each result."""
    return layer.weight_shape[0 if layer.channel_axis == 1 else 1]


def grouped(graph: "ir.Graph", node: "ir.Node", value: "ir.Value", inputs: int, size: int) -> "ir.Value":
    """Inserts nodes that round an input to eight bits, with one scale for each block of numbers."""
    import onnx_ir as ir

    writer, made = Writer(graph, counted=True), []

    def do(operator: str, *reads: "ir.Value", **attributes: "int | list[int]") -> "ir.Value":
        new = writer.node(operator, reads, f"{value.name}_{operator}", attributes=attributes)  # type: ignore[arg-type]
        new.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
        made.append(new)
        return new.outputs[0]

    def numbers(*values: float, kind: type = np.float32) -> "ir.Value":
        array: Array = np.asarray(values if kind is np.int64 else values[0], kind)
        return writer.constant(f"{value.name}_number", array)

    shape = do("Shape", value)
    shape.type = ir.TensorType(ir.DataType.INT64)
    rest = -inputs % size
    flat = do("Reshape", value, numbers(-1, inputs, kind=np.int64))
    if rest:
        flat = do("Pad", flat, numbers(0, 0, 0, rest, kind=np.int64))
    rows = do("Reshape", flat, numbers(-1, (inputs + rest) // size, size, kind=np.int64))
    size_of = do("Abs", rows)
    if graph.opset_imports.get("", 17) < 18:
        peak = do("ReduceMax", size_of, axes=[2])
    else:
        peak = do("ReduceMax", size_of, numbers(2, kind=np.int64))
    scale = do("Max", do("Mul", peak, numbers(1 / 127)), numbers(_SMALLEST))
    rounded = do("Mul", do("Round", do("Div", rows, scale)), scale)
    if rest:
        joined = do("Reshape", rounded, numbers(-1, inputs + rest, kind=np.int64))
        rounded = do("Slice", joined, *(numbers(each, kind=np.int64) for each in (0, inputs, 1)))
    result = do("Reshape", rounded, shape)
    result.shape = value.shape
    graph.insert_before(node, made)
    return result


MATRIX_PRODUCTS = ("MatMul", "Gemm")
_CONTRIBUTED = "com.microsoft"
# MatMulNBits: 1 computes in float32, 4 rounds activations to eight bits by blocks.
FLOATS, EIGHT_BITS = 1, 4


def weights_of(layer: Layer, node: "ir.Node", context: SchemeContext) -> Array:
    weight = context.weights.get(layer.weight)
    if weight is None:
        weight = constant(node.inputs[0 if node.op_type == "Gather" else 1])
    if weight is None:
        raise LookupError(f"The weights of '{layer.name}' are not constant.")
    return weight


def no_matrix(layer: Layer) -> str:
    """Returns the reason that a layer is no product with a weight matrix, as the end of a sentence, or ""."""
    if layer.reason:
        return layer.reason
    if layer.operator not in MATRIX_PRODUCTS or not layer.weight or layer.channel_axis is None:
        return "it is not a product with a weight matrix"
    return ""


def block_size(layer: Layer, context: SchemeContext) -> int:
    """Returns the block size of a layer's weights: that of the settings if it fits, otherwise a column."""
    inputs, size = inputs_count(layer), context.settings.block_size
    if runs_n_bits(context):  # whose kernels take blocks of these sizes, and fill up the last
        return max(16, min(256, 1 << (max(size, 1) - 1).bit_length()))
    return size if 0 < size < inputs and inputs % size == 0 else inputs


def runs_n_bits(context: SchemeContext) -> bool:
    """Whether the backend has ONNX Runtime's own operator for weights in blocks."""
    return context.backend in {"onnxruntime-cpu", "onnxruntime-cuda", "onnxruntime-directml"}


def fake_weights(bits: int, weight: Array, layer: Layer, context: SchemeContext) -> Array:
    found = in_blocks(as_matrix(weight, layer), block_size(layer, context), bits).floats()
    return np.ascontiguousarray(found.T if layer.channel_axis == 0 else found)


def write_blocks(
    writer: Writer, layer: Layer, nodes: "list[ir.Node]", context: SchemeContext, bits: int, accuracy_level: int
) -> None:
    matrix = as_matrix(weights_of(layer, nodes[0], context), layer)
    blocks = in_blocks(matrix, block_size(layer, context), bits)
    if runs_n_bits(context):
        _write_n_bits(writer, layer, nodes, blocks, accuracy_level)
    else:
        _write_dequantized(writer, layer, nodes, blocks)


def _write_dequantized(writer: Writer, layer: Layer, nodes: "list[ir.Node]", blocks: Blocks) -> None:
    """Writes the weights as DequantizeLinear with a block size, which OpenVINO reads as compressed weights."""
    import onnx_ir as ir

    by_column = layer.channel_axis == 0
    integers = blocks.integers.T if by_column else blocks.integers
    single = len(blocks.scales) == 1
    scales = blocks.scales[0] if single else blocks.scales.T if by_column else blocks.scales
    name, kind = layer.weight, ir.DataType.INT8 if blocks.bits > 4 else ir.DataType.INT4
    stored = writer.typed(f"{name}_quantized", np.ascontiguousarray(integers), kind)
    scale = writer.constant(f"{name}_scale", np.ascontiguousarray(scales))
    axis = layer.channel_axis if single else 1 if by_column else 0
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
    """Writes the product as MatMulNBits, for which ONNX Runtime has kernels."""
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
