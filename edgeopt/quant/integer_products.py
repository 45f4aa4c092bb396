"""The products of eight-bit integers in a quantized file, whatever way they are written; and a twin in floats, in
which each of them can be made to lose something."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.graph.nodes import constant, inner_graphs, is_op
from edgeopt.quant.forms.writer import Writer
from edgeopt.quant.pairs import as_rows, can_overflow

if TYPE_CHECKING:
    import onnx_ir as ir

# They move eight-bit numbers and change none.
_MOVES = ("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity", "MaxPool", "Slice", "Expand")
_INTEGER_OPS = ("MatMulInteger", "ConvInteger")
_LINEAR_OPS = ("QLinearConv", "QLinearMatMul")


@dataclass(frozen=True, slots=True)
class Product:
    """One of activations with constant signed weights, in the twin."""

    name: str
    """Of the node in the file."""
    node: "ir.Node"
    reads: str
    """The tensor of the twin that it multiplies: integers, or floats with `scale`."""
    excess: str
    """The input of the twin that takes what the product loses."""
    matrices: tuple[Array, ...]
    """Its weights as int8 [inputs, outputs], one for each group of a convolution; empty where kernels add up
    each channel for itself, in 32 bits."""
    kernel: tuple[int, ...]
    """The window of a convolution."""
    signed: bool
    """Activations are int8, which kernels take as unsigned by adding 128."""
    scale: float | None
    zero: int
    zero_from: str = ""
    """The tensor that holds it where it is found while the model runs."""
    units: Array | float = 1.0
    """What one step of the integers' product is worth, for each output or for all."""
    exposed: bool = False
    """Some pair of its weights overflows with the largest activations."""
    level: int = 0
    """How many others that are exposed lie before it, at most, on the way from the inputs."""


@dataclass(frozen=True, slots=True)
class Twin:
    """The file in floats; the inputs called `excess` are zero, or what a product loses."""

    model: "ir.Model"
    outputs: tuple[str, ...]
    """Of the file; the twin has more."""
    products: tuple[Product, ...]
    left_out: tuple[str, ...]
    """Products that are written in a way that is not looked into."""


def twin_of(model: "ir.Model") -> Twin:
    """The model that is given stays as it is."""
    from edgeopt.quant.layers import keyed

    copy = model.clone()
    graph = copy.graph
    outputs = tuple(str(value.name) for value in graph.outputs)
    products: list[Product] = []
    left_out: list[str] = []
    for name, node in list(keyed(graph)):
        product = _product(graph, name, node, f"edgeopt/excess/{len(products)}")
        if product is not None:
            products.append(replace(product, exposed=any(map(can_overflow, product.matrices))))
        elif _is_quantized(node):
            left_out.append(name)
    levels = _levels(graph, {each.node for each in products if each.exposed})
    ranked = tuple(replace(each, level=levels[each.node]) for each in products)
    _give_out(graph, [name for each in products for name in (each.reads, each.zero_from) if name])
    return Twin(copy, outputs, ranked, tuple(left_out))


def _levels(graph: "ir.Graph", exposed: "set[ir.Node]") -> "dict[ir.Node, int]":
    values: dict[ir.Value | None, int] = {}
    nodes: dict[ir.Node, int] = {}
    deepest = 0
    for node in graph:
        level = max((values.get(value, 0) for value in node.inputs), default=0)
        if any(True for _ in inner_graphs(node)):
            level = deepest  # a branch may read whatever was there before
        nodes[node] = level
        level += node in exposed
        values.update((value, level) for value in node.outputs)
        deepest = max(deepest, level)
    return nodes


def _give_out(graph: "ir.Graph", names: list[str]) -> None:
    given = {str(value.name) for value in (*graph.outputs, *graph.inputs)}
    wanted = set(names) - given
    graph.outputs.extend(value for node in graph for value in node.outputs if value.name in wanted)


def _product(graph: "ir.Graph", name: str, node: "ir.Node", excess: str) -> Product | None:
    if is_op(node, "Conv", "MatMul", "Gemm"):
        return _of_floats(graph, name, node, excess)
    if is_op(node, *_INTEGER_OPS):
        return _of_integers(graph, name, node, excess)
    if is_op(node, *_LINEAR_OPS):
        return _of_linear(graph, name, node, excess)
    return None


def _of_floats(graph: "ir.Graph", name: str, node: "ir.Node", excess: str) -> Product | None:
    """Q/DQ pairs around it."""
    weight = _weight(node.inputs[1])
    steps = _steps(node.inputs[0])
    if weight is None or steps is None or not _is_plain(node):
        return None
    integers, scales = weight
    scale, zero, signed = steps
    if not _fits(node, integers):
        return None
    units = np.float32(scale) * scales
    reads, matrices = str(node.inputs[0].name), _matrices(node, integers)
    _take_off(graph, node, excess)
    return Product(name, node, reads, excess, matrices, integers.shape[2:], signed, scale, zero, units=units)


def _of_integers(graph: "ir.Graph", name: str, node: "ir.Node", excess: str) -> Product | None:
    """MatMulInteger and ConvInteger: the twin multiplies floats with their values, so that no device cuts off."""
    import onnx_ir as ir

    weight = constant(node.inputs[1])
    kind = node.inputs[0].dtype
    if weight is None or weight.dtype != np.int8 or kind is None or kind.name not in ("UINT8", "INT8"):
        return None
    if not _fits(node, weight):
        return None
    zeros = [node.inputs[k] if len(node.inputs) > k else None for k in (2, 3)]
    if zeros[1] is not None and (constant(zeros[1]) is None or np.any(constant(zeros[1]))):
        return None
    writer = Writer(graph, counted=True)
    factors, made = [], []
    for value, zero in zip(node.inputs[:2], zeros, strict=True):
        cast = _cast(writer, value, ir.DataType.FLOAT)
        made.append(cast)
        if zero is not None:
            shift = _cast(writer, zero, ir.DataType.FLOAT)
            sub = writer.node("Sub", (cast.outputs[0], shift.outputs[0]), f"{value.name}_moved")
            made += [shift, sub]
        factors.append(made[-1].outputs[0])
    kept = "Conv" if node.op_type == "ConvInteger" else "MatMul"
    product = writer.node(kept, factors, f"{node.outputs[0].name}_product")
    product.attributes.update(node.attributes)
    back = _cast(writer, product.outputs[0], ir.DataType.INT32)
    graph.insert_before(node, [*made, product, back])
    reads, zero_from, zero = str(node.inputs[0].name), "", 0
    if zeros[0] is not None:
        known = constant(zeros[0])
        zero, zero_from = (int(known.reshape(-1)[0]), "") if known is not None else (0, str(zeros[0].name))
    writer.take_over(node.outputs[0], back.outputs[0])
    _take_off(graph, product, excess)
    signed, matrices = kind.name == "INT8", _matrices(product, weight)
    return Product(name, product, reads, excess, matrices, weight.shape[2:], signed, None, zero, zero_from)


def _of_linear(graph: "ir.Graph", name: str, node: "ir.Node", excess: str) -> Product | None:
    """QLinearConv and QLinearMatMul, as the product of what its integers stand for, rounded again."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = node.inputs[:8]
    known = [constant(value) for value in (x_scale, x_zero, w, w_scale, w_zero)]
    if any(each is None for each in known):
        return None
    scale, zero, weight, scales, weight_zero = (np.asarray(each) for each in known)
    if weight.dtype != np.int8 or np.any(weight_zero) or scale.size != 1 or not _fits(node, weight):
        return None
    is_conv = node.op_type == "QLinearConv"
    writer = Writer(graph, counted=True)
    axis = {"axis": 0 if is_conv else 1} if scales.size > 1 else None
    ups = [
        writer.node("DequantizeLinear", (x, x_scale, x_zero), f"{x.name}_float"),
        writer.node("DequantizeLinear", (w, w_scale, w_zero), f"{w.name}_float", attributes=axis),
    ]
    factors = [each.outputs[0] for each in ups]
    if is_conv and len(node.inputs) > 8 and node.inputs[8] is not None:
        bias = constant(node.inputs[8])
        if bias is None:
            return None
        floats = bias * (scale.reshape(-1) * scales.reshape(-1)).astype(np.float32)
        factors.append(writer.constant(f"{name}_bias", floats.astype(np.float32)))
    product = writer.node("Conv" if is_conv else "MatMul", factors, f"{node.outputs[0].name}_product")
    product.attributes.update(node.attributes)
    down = writer.node("QuantizeLinear", (product.outputs[0], y_scale, y_zero), f"{node.outputs[0].name}_rounded")
    graph.insert_before(node, [*ups, product, down])
    writer.take_over(node.outputs[0], down.outputs[0])
    _take_off(graph, product, excess)
    signed = np.asarray(zero).dtype == np.int8
    units = np.float32(scale.reshape(-1)[0]) * scales.reshape(-1)
    matrices, kernel, middle = _matrices(product, weight), weight.shape[2:], int(zero.reshape(-1)[0])
    return Product(name, product, str(x.name), excess, matrices, kernel, signed, None, middle, units=units)


def _cast(writer: Writer, value: "ir.Value", kind: "ir.DataType") -> "ir.Node":
    return writer.node("Cast", (value,), f"{value.name}_cast", kind=kind, attributes={"to": int(kind)})


def _take_off(graph: "ir.Graph", product: "ir.Node", excess: str) -> None:
    """Subtracts the input of that name from what the product gives."""
    import onnx_ir as ir

    given = ir.Value(name=excess, type=ir.TensorType(ir.DataType.FLOAT))
    graph.inputs.append(given)
    old = product.outputs[0]
    name = old.name
    sub = ir.node("Sub", [old, given], name=f"{excess}/off")
    result = sub.outputs[0]
    result.type = old.type
    if old.is_graph_output():
        result.shape = old.shape
    old.replace_all_uses_with(result, replace_graph_outputs=True)
    sub.replace_input_with(0, old)
    old.name, result.name = f"{excess}/exact", name
    graph.insert_after(product, sub)


def _weight(value: "ir.Value | None") -> tuple[Array, Array] | None:
    """Constant signed integers with zero in their middle behind a DequantizeLinear, and their scales."""
    up = value.producer() if value is not None else None
    if up is None or not is_op(up, "DequantizeLinear") or "block_size" in up.attributes:
        return None
    scales = constant(up.inputs[1])
    integers = constant(up.inputs[0])
    down = up.inputs[0].producer()
    if integers is None and is_op(down, "QuantizeLinear") and down is not None:
        integers = _rounded(down, _int(up, "axis", 1))
    zero = constant(up.inputs[2]) if len(up.inputs) > 2 else None
    if integers is None or scales is None or integers.dtype != np.int8 or (zero is not None and np.any(zero)):
        return None
    return np.asarray(integers), np.asarray(scales, np.float32).reshape(-1)


def _rounded(down: "ir.Node", axis: int) -> Array | None:
    """Constant floats that the file rounds each time."""
    floats, scales = constant(down.inputs[0]), constant(down.inputs[1])
    zero = constant(down.inputs[2]) if len(down.inputs) > 2 else None
    if floats is None or scales is None or zero is None or zero.dtype != np.int8:
        return None
    shape = [1] * floats.ndim
    if scales.size > 1:
        shape[axis] = -1
    integers: Array = np.clip(
        np.rint(np.asarray(floats, np.float32) / np.asarray(scales, np.float32).reshape(shape)), -128, 127
    ).astype(np.int8)
    return integers


def _steps(value: "ir.Value | None") -> tuple[float, int, bool] | None:
    """Scale, zero and sign of the eight-bit numbers that a product reads."""
    node = value.producer() if value is not None else None
    while node is not None and is_op(node, *_MOVES):
        node = node.inputs[0].producer()
    if node is None or not is_op(node, "DequantizeLinear"):
        return None
    scale = constant(node.inputs[1])
    zero = constant(node.inputs[2]) if len(node.inputs) > 2 else None
    if scale is None or scale.size != 1 or zero is None or zero.dtype not in (np.uint8, np.int8):
        return None
    return float(scale.reshape(-1)[0]), int(zero.reshape(-1)[0]), zero.dtype == np.int8


def _matrices(node: "ir.Node", weight: Array) -> tuple[Array, ...]:
    if not is_op(node, "Conv"):
        return (weight.T if is_op(node, "Gemm") and _int(node, "transB", 0) else weight,)
    groups = _int(node, "group", 1)
    if weight.shape[1] == 1 and groups == len(weight) > 1:
        return ()
    return tuple(as_rows(part) for part in np.split(weight, groups))


def _is_plain(node: "ir.Node") -> bool:
    """Not turned or scaled in a way that no eight-bit product has."""
    return not is_op(node, "Gemm") or not _int(node, "transA", 0)


def _fits(node: "ir.Node", weight: Array) -> bool:
    """A matrix, or a convolution whose padding is given in numbers."""
    if "Conv" not in node.op_type:
        return weight.ndim == 2
    told = node.attributes.get("auto_pad")
    return weight.ndim >= 3 and (told is None or told.as_string() in ("NOTSET", "VALID"))


def _is_quantized(node: "ir.Node") -> bool:
    """A product of integers that was not understood."""
    if is_op(node, *_INTEGER_OPS, *_LINEAR_OPS):
        return True
    if node.domain == "com.microsoft" and node.op_type in _OF_MICROSOFT:
        return True
    return is_op(node, "Conv", "MatMul", "Gemm") and all(_steps(value) is not None for value in node.inputs[:2])


_OF_MICROSOFT = (
    *("QGemm", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "QAttention", "DynamicQuantizeLSTM"),
    *("QLinearConvTranspose",),
)


def _int(node: "ir.Node", name: str, default: int) -> int:
    attribute = node.attributes.get(name)
    return attribute.as_int() if attribute is not None else default
