"""The inventory of a quantized file: the properties that execution providers support differently."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.graph.nodes import constant, is_op, nodes_of

if TYPE_CHECKING:
    import onnx_ir as ir

# Two such weights, each times the largest activation, add up to less than 2^15.
_SEVEN_BITS, _EIGHT_BITS = 64, 128
_STORES = ("QuantizeLinear", "DequantizeLinear")
_MOVES = ("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity")
PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm")
_INTEGER = ("MatMulInteger", "ConvInteger", "QLinearConv", "QLinearMatMul", "DynamicQuantizeLinear")
_OF_MICROSOFT = (
    *("QGemm", "QAttention", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"),
    *("QLinearAdd", "QLinearMul", "QLinearConcat", "QLinearAveragePool", "QLinearGlobalAveragePool"),
    *("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", "QLinearWhere", "QLinearConvTranspose"),
)


@dataclass(frozen=True, slots=True)
class Inventory:
    opset: int
    pairs: int
    """The number of QuantizeLinear nodes on computed values."""
    activation_types: tuple[str, ...]
    """Types of quantized activations and of the inputs of integer operators: `uint8`, `int16`."""
    shifted: bool
    """Whether the zero point of an activation differs from the middle of its type, or is found at run time."""
    weight_types: tuple[str, ...]
    per_channel: bool
    blocks: int
    """The number of weights with a scale for each block (DequantizeLinear or MatMulNBits)."""
    packed: int
    """The number of MatMulNBits nodes."""
    integer_operators: tuple[str, ...]
    """Operators that compute with integers, each once; empty if all quantized nodes are QDQ pairs."""
    quantized_products: int
    wide_products: tuple[str, ...]
    """Products with weights that need more than seven bits, by node name."""
    computed_products: int
    """The number of quantized products whose two factors are both computed while the model runs."""
    quantized_matrices: int
    """The number of quantized matrix products."""
    open_inputs: dict[str, str]
    """Shapes of the inputs with an open dimension, by name: `Nx3x224x224`."""

    @property
    def is_quantized(self) -> bool:
        return bool(self.pairs or self.integer_operators or self.blocks or self.weight_types)


def inventory_of(model: "ir.Model") -> Inventory:
    nodes = list(nodes_of(model))
    zeros = list(_zeros(nodes))
    packed = sum(_is_packed(node) for node in nodes)
    weights = [node for node in nodes if is_op(node, "DequantizeLinear") and _of_weights(node)]
    blocks = sum("block_size" in node.attributes for node in weights)
    products = [node for node in nodes if _is_quantized(node)]
    reaches = {node: _reach(node) for node in products}
    kinds = {"UINT8" if is_op(node, "DynamicQuantizeLinear") else "" for node in nodes}
    kinds |= {str(zero.dtype).upper() for zero in zeros}
    return Inventory(
        opset=model.opset_imports.get("", 0),
        pairs=sum(is_op(node, "QuantizeLinear") or _is_short(node) for node in nodes),
        activation_types=tuple(sorted(kind.lower() for kind in kinds if kind)),
        shifted=any(int(zero.reshape(-1)[0]) != _middle(zero) for zero in zeros if zero.size)
        or any(is_op(node, "DynamicQuantizeLinear") for node in nodes),
        weight_types=tuple(sorted({_kind(node.inputs[0]) for node in weights} | ({"uint4"} if packed else set()))),
        per_channel=any(_size(node.inputs[1]) > 1 and "block_size" not in node.attributes for node in weights),
        blocks=blocks + packed,
        packed=packed,
        integer_operators=tuple(
            dict.fromkeys(
                node.op_type
                for node in nodes
                if is_op(node, *_INTEGER) or (node.domain == "com.microsoft" and node.op_type in _OF_MICROSOFT)
            )
        ),
        quantized_products=len(products),
        wide_products=tuple(node.name or node.op_type for node in products if (reaches[node] or 0) > _SEVEN_BITS),
        computed_products=sum(reach is None for reach in reaches.values()),
        quantized_matrices=sum("Conv" not in node.op_type for node in products),
        open_inputs={
            str(value.name): _shape(value)
            for value in model.graph.inputs
            if value.shape is None or not value.shape.is_static()
        },
    )


def _zeros(nodes: "list[ir.Node]") -> "Iterator[Array]":
    """Yields the zero points of activations."""
    for node in nodes:
        place = 2 if is_op(node, "QuantizeLinear", "QLinearConv", "QLinearMatMul") or _is_short(node) else None
        if place is None or len(node.inputs) <= place or constant(node.inputs[0]) is not None:
            continue
        zero = constant(node.inputs[place])
        if zero is not None:
            yield np.asarray(zero)


def _middle(zero: Array) -> int:
    return 0 if zero.dtype.kind == "i" else int(1 << (8 * zero.dtype.itemsize - 1))


def _shape(value: "ir.Value") -> str:
    return "x".join(str(d) if isinstance(d, int) else "N" for d in value.shape) if value.shape is not None else "N"


def _of_weights(node: "ir.Node") -> bool:
    """Whether a DequantizeLinear holds weights; a bias, which has 32 bits, does not count."""
    value = node.inputs[0]
    before = value.producer() if value is not None else None
    rounded = before is not None and before.op_type == "QuantizeLinear" and constant(before.inputs[0]) is not None
    return (rounded or constant(value) is not None) and _kind(value) != "int32"


def _kind(value: "ir.Value | None") -> str:
    dtype = value.dtype if value is not None else None
    if dtype is None and value is not None and value.const_value is not None:
        dtype = value.const_value.dtype
    if dtype is None:
        node = value.producer() if value is not None else None
        zero = constant(node.inputs[2]) if node is not None and len(node.inputs) > 2 else None
        return str(zero.dtype) if zero is not None else "int8"
    return str(dtype.name).lower()


def _size(value: "ir.Value | None") -> int:
    array = constant(value)
    return array.size if array is not None else 1


def _is_short(node: "ir.Node") -> bool:
    """Whether a node is a QuantizeLinear of ONNX Runtime, which supported 16 bits before ONNX did."""
    return bool(node.domain == "com.microsoft" and node.op_type == "QuantizeLinear")


def _is_packed(node: "ir.Node") -> bool:
    return bool(node.domain == "com.microsoft" and node.op_type == "MatMulNBits")


def _is_quantized(node: "ir.Node") -> bool:
    if is_op(node, "QLinearConv", "QLinearMatMul", "MatMulInteger", "ConvInteger"):
        return True
    if not is_op(node, *PRODUCTS):
        return False
    return all(_is_up(value) for value in node.inputs[:2])


def _is_up(value: "ir.Value | None") -> bool:
    node = value.producer() if value is not None else None
    while is_op(node, *_MOVES, "MaxPool"):
        assert node is not None and node.inputs[0] is not None  # noqa: PT018, S101 - is_op says so
        node = node.inputs[0].producer()
    return node is not None and node.op_type == "DequantizeLinear"


def _reach(node: "ir.Node") -> int | None:
    """Returns the largest distance of a product's weights from zero; None if the second factor is computed."""
    value = node.inputs[3 if is_op(node, "QLinearConv", "QLinearMatMul") else 1]
    zero = 0
    while value is not None and constant(value) is None and is_op(before := value.producer(), *_STORES, *_MOVES):
        if is_op(before, "DequantizeLinear") and len(before.inputs) > 2:
            points = constant(before.inputs[2])
            zero = int(points.reshape(-1)[0]) if points is not None and points.size else 0
        value = before.inputs[0]
    weights = constant(value)
    if weights is None or weights.size == 0:
        return None
    if weights.dtype.kind not in "iu":
        return _EIGHT_BITS  # rounded when the model is loaded
    around = weights.astype(np.int32) - zero
    return int(max(around.max(), -around.min()))
