"""Schemes with 16-bit floats: regions of products and operators between them, with casts at their borders."""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.graph.ledger import Change
from edgeopt.graph.nodes import constant, is_op
from edgeopt.graph.passes.base import plural, quiet
from edgeopt.graph.shapes.infer import infer_shapes
from edgeopt.quant.layers import PRODUCTS, nodes_by_key
from edgeopt.quant.records import Layer
from edgeopt.quant.schemes.base import Scheme, SchemeContext
from edgeopt.quant.schemes.writer import Writer, uses

if TYPE_CHECKING:
    import onnx_ir as ir

LARGEST_FP16, SMALLEST_FP16 = 65504.0, 6e-8
_BF16_BITS = np.uint32(0xFFFF0000)
# Operators between products that lose only their last digits in half precision, because they sum few numbers.
BETWEEN = frozenset(
    (
        *("Relu", "LeakyRelu", "PRelu", "Clip", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Gelu", "Elu"),
        *("Add", "Sub", "Mul", "Concat", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity"),
        *("MaxPool", "Slice", "Split", "Pad", "Resize", "DepthToSpace", "SpaceToDepth", "Expand", "Tile"),
    )
)
_FLOAT_PLACES = {
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze", "Slice", "Split", "Expand", "Tile", "Resize"), (0,)),
    "Pad": (0, 2),
}


def fits(kind: str, layer: Layer, context: SchemeContext) -> str:
    if layer.reason:
        return layer.reason
    if layer.operator not in PRODUCTS:
        return f"a {layer.operator} only looks weights up"
    if kind == "bf16" and context.backend not in BF16.backends:
        return f"{context.backend} does not support bf16 models"
    for name in (*layer.inputs, *layer.outputs) if kind == "fp16" else ():
        kept = context.ranges.get(name)
        peak = max(abs(kept.low), abs(kept.high)) if kept is not None else 1.0
        if peak > LARGEST_FP16:
            return f"its values reach {peak:.3g}, and fp16 ends at {LARGEST_FP16:.0f}"
        if 0 < peak < SMALLEST_FP16:
            return f"its values stay below {peak:.3g}, which fp16 rounds to zero"
    return ""


def _halved(kind: str, array: Array) -> Array:
    """Returns floats rounded to the values of the half type."""
    array = np.asarray(array, np.float32)
    if kind == "fp16":
        return np.clip(array, -LARGEST_FP16, LARGEST_FP16).astype(np.float16).astype(np.float32)
    bits = array.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return np.where(np.isfinite(array), (rounded & _BF16_BITS).view(np.float32), array)


def fake_weights(kind: str, weight: Array, layer: Layer, context: SchemeContext) -> Array:  # noqa: ARG001
    return _halved(kind, weight)


def fake(
    kind: str,
    before: bool,
    graph: "ir.Graph",
    node: "ir.Node",
    value: "ir.Value",
    layer: Layer,  # noqa: ARG001 - every scheme function has these parameters
    context: SchemeContext,  # noqa: ARG001
) -> "ir.Value":
    """Inserts casts to the half type and back before a node, for its input, or behind it, for its output."""
    down, up = _there_and_back(Writer(graph, counted=True), kind, value)
    if before:
        graph.insert_before(node, [down, up])
    else:
        graph.insert_after(node, [down, up])
    return up.outputs[0]


def _there_and_back(writer: Writer, kind: str, value: "ir.Value") -> "tuple[ir.Node, ir.Node]":
    import onnx_ir as ir

    down = _cast(writer, value, f"{value.name}_rounded", _dtype(kind))
    return down, _cast(writer, down.outputs[0], f"{value.name}_fake", ir.DataType.FLOAT)


def _cast(writer: Writer, value: "ir.Value", name: str, to: "ir.DataType") -> "ir.Node":
    return writer.node("Cast", (value,), name, like=value, kind=to, attributes={"to": int(to)})


def _dtype(kind: str) -> "ir.DataType":
    import onnx_ir as ir

    return ir.DataType.FLOAT16 if kind == "fp16" else ir.DataType.BFLOAT16


def write(kind: str, model: "ir.Model", layers: tuple[Layer, ...], context: SchemeContext) -> tuple[Change, ...]:
    import onnx_ir as ir

    with quiet():
        infer_shapes(model)  # what lies between products is taken along where it is known to be float
    graph, writer, to = model.graph, Writer(model.graph), _dtype(kind)
    found = nodes_by_key(graph)
    weights = {layer.weight: context.weights.get(layer.weight) for layer in layers}
    region = _region(graph, {found[key] for layer in layers for key in layer.nodes}, context, kind)
    halves: dict[ir.Value, ir.Value] = {}
    for node in list(graph):
        if node not in region:
            continue
        for place in _float_places(node):
            value = node.inputs[place]
            producer = value.producer()
            if producer is not None and producer in region:
                continue
            if value not in halves:
                halves[value] = _half(writer, kind, value, to, weights.get(str(value.name)))
            node.replace_input_with(place, halves[value])
    inside = [node for node in graph if node in region]  # in an order that is the same each time
    for node in inside:
        for value in node.outputs:
            _give_back(writer, node, value, region, to)
    names = tuple(str(node.name or node.outputs[0].name) for node in inside)
    return (Change(f"computes {plural(len(region), 'node')} in {kind}", names),)


def _region(graph: "ir.Graph", products: "set[ir.Node]", context: SchemeContext, kind: str) -> "set[ir.Node]":
    """Returns the products, and the operators between them whose floats come from the region alone."""
    region = set(products)
    for node in graph:  # in the order of computation, so that what feeds a node was looked at before it
        if not is_op(node, *BETWEEN) or not all(_is_float(value) for value in node.outputs):
            continue
        computed = [value for place in _float_places(node) if constant(value := node.inputs[place]) is None]
        if computed and all(value.producer() in region for value in computed):
            peaks = [context.ranges.get(str(value.name)) for value in node.outputs]
            if kind == "bf16" or all(each is None or max(-each.low, each.high) <= LARGEST_FP16 for each in peaks):
                region.add(node)
    return region


def _float_places(node: "ir.Node") -> list[int]:
    """Returns the float inputs of a node; for a product all, even those of unknown type."""
    places = _FLOAT_PLACES.get(node.op_type)
    product = is_op(node, *PRODUCTS)
    return [
        place
        for place, value in enumerate(node.inputs)
        if value is not None and (product or ((places is None or place in places) and _is_float(value)))
    ]


def _is_float(value: "ir.Value") -> bool:
    import onnx_ir as ir

    kind = value.const_value.dtype if value.const_value is not None else value.dtype
    return kind is ir.DataType.FLOAT


def _half(writer: Writer, kind: str, value: "ir.Value", to: "ir.DataType", changed: Array | None) -> "ir.Value":
    array = changed if changed is not None else constant(value)
    if array is not None:
        return writer.typed(f"{value.name}_{kind}", _halved(kind, array), to)
    cast = _cast(writer, value, f"{value.name}_{kind}", to)
    writer.behind(value, [cast])
    return cast.outputs[0]


def _give_back(
    writer: Writer, node: "ir.Node", value: "ir.Value", region: "set[ir.Node]", to: "ir.DataType"
) -> None:
    """Casts a value of a region to float for its readers outside the region."""
    import onnx_ir as ir

    outside = [use for use in uses(value) if use[0] not in region]
    if not outside and not value.is_graph_output():
        value.type = ir.TensorType(to)
        return
    up = _cast(writer, value, f"{value.name}_float", ir.DataType.FLOAT)
    writer.graph.insert_after(node, up)
    for reader, place in outside:
        reader.replace_input_with(place, up.outputs[0])
    if value.is_graph_output():
        kept_type = value.type
        name, value.name = str(value.name), writer.name(f"{value.name}_half")
        up.outputs[0].name, up.outputs[0].type, up.outputs[0].shape = name, kept_type, value.shape
        for place, output in enumerate(writer.graph.outputs):
            if output is value:
                writer.graph.outputs[place] = up.outputs[0]
    value.type = ir.TensorType(to)


def _define_scheme(kind: str, title: str, backends: tuple[str, ...], lowest_opset: int) -> Scheme:
    return Scheme(
        name=kind,
        title=title,
        operators=PRODUCTS,
        backends=backends,
        lowest_opset=lowest_opset,
        needs_ranges=False,
        fits=partial(fits, kind),
        write=partial(write, kind),
        fake_weights=partial(fake_weights, kind),
        fake_input=partial(fake, kind, True),
        fake_output=partial(fake, kind, False),
    )


FP16 = _define_scheme(
    "fp16",
    "sixteen-bit floats, with layers that leave their range kept in float32",
    (
        *("onnxruntime-cuda", "onnxruntime-tensorrt", "onnxruntime-directml", "onnxruntime-coreml"),
        *("onnxruntime-qnn", "onnxruntime-openvino", "openvino-gpu", "openvino-npu"),
    ),
    13,
)
BF16 = _define_scheme(
    "bf16",
    "sixteen-bit floats with the range of float32",
    ("onnxruntime-cuda", "onnxruntime-tensorrt"),
    22,
)
