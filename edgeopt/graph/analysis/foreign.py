"""Types and shapes behind the operators that ONNX Runtime adds, which onnx's own inference does not know."""

from typing import TYPE_CHECKING

from edgeopt.graph.analysis.categories import MICROSOFT_DOMAINS
from edgeopt.graph.analysis.tensors import OWN_DOMAINS

if TYPE_CHECKING:
    import onnx_ir as ir

# Where it is not the first input that has the type of the result.
_TYPED_BY = {
    "EmbedLayerNormalization": 5, "MatMulIntegerToFloat": 2, "DequantizeLinear": 1, "QuantizeLinear": 2,
    "GatherBlockQuantized": 2,
}  # fmt: skip
_LIKE_THE_FIRST = (
    *("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "SimplifiedLayerNormalization", "GroupNorm"),
    *("SkipGroupNorm", "BiasGelu", "FastGelu", "QuickGelu", "Gelu", "BiasAdd", "BiasSoftmax", "RotaryEmbedding"),
    *("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", "QuantizeLinear", "DequantizeLinear"),
)
_PRODUCTS = (
    "FusedMatMul",
    "TransposeMatMul",
    "MatMulIntegerToFloat",
    "DynamicQuantizeMatMul",
    "FusedMatMulActivation",
)
STANDS_FOR = {"FusedConv": "Conv", "FusedGemm": "Gemm"}
"""What inference may take them for."""


def is_foreign(node: "ir.Node") -> bool:
    return node.domain in MICROSOFT_DOMAINS or (
        node.domain in OWN_DOMAINS and node.op_type == "SimplifiedLayerNormalization"
    )


def infer_foreign(node: "ir.Node") -> None:
    """Tells what is certain: the type of the first result, and its shape where that follows from the inputs'."""
    import onnx_ir as ir

    place = _TYPED_BY.get(node.op_type, 0)
    source = node.inputs[place] if place < len(node.inputs) else None
    result = node.outputs[0]
    if source is not None and result.type is None:
        result.type = source.type
        if source.type is None and source.const_value is not None:
            result.type = ir.TensorType(source.const_value.dtype)
    if result.shape is None and (sizes := _sizes(node)) is not None:
        result.shape = ir.Shape(sizes)


def _sizes(node: "ir.Node") -> tuple[int, ...] | None:
    shapes = [None if value is None else _shape(value) for value in node.inputs]
    first = shapes[0] if shapes else None
    if first is None:
        return None
    if node.op_type in _LIKE_THE_FIRST:
        return first
    if node.op_type == "MatMulNBits" and "N" in node.attributes:
        return *first[:-1], node.attributes["N"].as_int()
    second = shapes[1] if len(shapes) > 1 else None
    if node.op_type == "Attention" and second is not None and "qkv_hidden_sizes" not in node.attributes:
        return *first[:2], second[-1] // 3
    if node.op_type == "MultiHeadAttention" and len(first) == 3 and len(shapes) > 2 and shapes[2] is not None:
        return (*first[:2], shapes[2][-1]) if len(shapes[2]) == 3 else None
    if node.op_type == "GroupQueryAttention" and second is not None:
        return first
    if node.op_type == "EmbedLayerNormalization" and len(shapes) > 2 and shapes[2] is not None:
        return *first, shapes[2][-1]
    if node.op_type in _PRODUCTS and second is not None and len(first) > 1 and len(second) == 2:
        return _product(node, first, second)
    return None


def _product(node: "ir.Node", first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    def turned(name: str) -> bool:
        return name in node.attributes and bool(node.attributes[name].as_int())

    rows = (*first[:-2], first[-1]) if turned("transA") else first[:-1]
    return *rows, second[0] if turned("transB") else second[1]


def _shape(value: "ir.Value") -> tuple[int, ...] | None:
    shape = value.shape if value.shape is not None else getattr(value.const_value, "shape", None)
    if shape is None or not all(isinstance(d, int) for d in shape):
        return None
    return tuple(int(d) for d in shape)
