"""Schemes with rounded weights and activations whose ranges are calibrated, in the notation of all runtimes.

Pairs of QuantizeLinear and DequantizeLinear stand around floats; runtimes fuse them into products of integers.
Weights have eight bits, activations eight or sixteen.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.backends import eight_bits_of
from edgeopt.backends.base import Array
from edgeopt.graph.ledger import Change
from edgeopt.graph.nodes import constant, is_op
from edgeopt.graph.passes.base import plural
from edgeopt.quant.layers import PRODUCTS, nodes_by_key
from edgeopt.quant.openvino_defects import LOWEST, NO_BIAS
from edgeopt.quant.records import Layer, Range
from edgeopt.quant.schemes import flow as flows
from edgeopt.quant.schemes.base import Scheme, SchemeContext, Smoothing
from edgeopt.quant.schemes.writer import (
    Steps,
    Writer,
    activation_steps,
    along,
    give_as_output,
    read_by,
    rounded_weight,
    uses,
    weight_scales,
)

if TYPE_CHECKING:
    import onnx_ir as ir


def multiplied(weight: Array, layer: Layer, smoothing: Smoothing) -> Array:
    """Returns the weights multiplied by the factors that divide the activations."""
    along = smoothing.factors[:, None] if layer.channel_axis == 1 else smoothing.factors[None, :]
    return np.asarray(weight * along, np.float32)


def division(writer: Writer, value: "ir.Value", smoothing: Smoothing) -> "ir.Node":
    """Returns a new node, not inserted yet, that divides activations by their factors."""
    import onnx_ir as ir

    inverse = writer.constant(f"{smoothing.tensor}_factors", (1.0 / smoothing.factors).astype(np.float32))
    node = writer.node("Mul", (value, inverse), smoothing.tensor, like=value, kind=ir.DataType.FLOAT)
    node.outputs[0].name = smoothing.tensor  # by which its range is known
    return node


EIGHT_BITS, SEVEN_BITS = 127, 64  # 255 * 64 + 255 * 64 still fits into 16 bits
_SMOOTHED_BITS = 8  # sixteen have steps for channels of all sizes
_LARGEST_BIAS = float(1 << 30)
_SMALLEST_PRODUCT = 1.2e-38
# Other samples may exceed the calibrated range, and values outside are clipped. Sixteen bits have steps to spare:
# twice the range costs one of them, and the weights' eight bits limit the accuracy anyway.
_WIDENED = 2.0
_FUSED_WITH_REDUCTIONS = ("Add", "Sub", "Mul", "Div", "Reshape", "Flatten", "Squeeze", "Unsqueeze")


def fits(bits: int, layer: Layer, context: SchemeContext) -> str:
    rules = eight_bits_of(context.backend)
    if layer.reason:
        return layer.reason
    if layer.operator not in PRODUCTS:
        return f"a {layer.operator} only looks weights up"
    if rules.style == "none":
        return f"{context.backend} has no products in eight bits"
    if bits > 8 and not rules.sixteen:
        return f"{context.backend} does not compute with activations of {bits} bits"
    if layer.operator == "ConvTranspose" and not rules.transposed:
        return f"{context.backend} has no ConvTranspose in eight bits"
    missing = [name for name in layer.inputs if name not in context.ranges]
    return f"the range of '{missing[0]}' is not known" if missing else ""


def steps_of(kept: Range, context: SchemeContext, bits: int, *, second: bool = False) -> Steps:
    """Returns the steps of an activation; `second` marks the second factor of a product of activations."""
    rules, settings = eight_bits_of(context.backend), context.settings
    symmetric = rules.symmetric or settings.symmetric_activations
    signed = rules.signed or settings.activation_type.startswith("int")
    if second and rules.style == "inputs":  # it takes the place of weights, which kernels want so
        return activation_steps(kept, f"int{bits}", symmetric=True)
    return activation_steps(kept, f"{'' if signed else 'u'}int{bits}", symmetric)


def kept_range(value: "ir.Value", context: SchemeContext, bits: int) -> Range | None:
    """Returns the calibrated range, widened for more than eight bits but within the bounds of a Relu or Clip."""
    kept = context.ranges.get(str(value.name))
    if kept is None or bits <= _SMOOTHED_BITS:
        return kept
    return flows.bounded(value, Range(_WIDENED * kept.low, _WIDENED * kept.high))


def scales_of(weight: Array, layer: Layer, context: SchemeContext) -> Array:
    return weight_scales(weight, axis_of(layer, context), largest(context))


def fake_weights(weight: Array, layer: Layer, context: SchemeContext) -> Array:
    scales, axis = scales_of(weight, layer, context), axis_of(layer, context)
    rounded = rounded_weight(weight, scales, axis, largest(context))
    return (rounded * along(scales, axis, weight.ndim)).astype(np.float32)


def axis_of(layer: Layer, context: SchemeContext) -> int | None:
    return layer.channel_axis if context.settings.per_channel else None


def largest(context: SchemeContext) -> int:
    return SEVEN_BITS if context.settings.reduce_range else EIGHT_BITS


def fake_input(
    bits: int, graph: "ir.Graph", node: "ir.Node", value: "ir.Value", layer: Layer, context: SchemeContext
) -> "ir.Value":
    second = not layer.weight and node.inputs[1] is value and node.inputs[0] is not value
    kept = kept_range(value, context, bits)
    if kept is None:
        raise LookupError(f"The range of '{value.name}' was not calibrated; see `tensors_wanted`.")
    steps = steps_of(kept, context, bits, second=second)
    return _faked(graph, node, value, steps, before=True)


def fake_output(
    bits: int,
    graph: "ir.Graph",
    node: "ir.Node",
    value: "ir.Value",
    layer: Layer,  # noqa: ARG001 - every scheme function has these parameters
    context: SchemeContext,
) -> "ir.Value":
    rules = eight_bits_of(context.backend)
    if rules.style != "through" or not (rules.everywhere or flows.gives_eight_bits(node)):
        return value
    end = flows.end_of(value, _is_symmetric(context))
    kept = range_of(context, bits)(end)
    if kept is None:
        raise LookupError(f"The range of '{end.name}' was not calibrated; see `tensors_wanted`.")
    return _faked(graph, node, value, steps_of(kept, context, bits), before=False)


def _faked(graph: "ir.Graph", node: "ir.Node", value: "ir.Value", steps: Steps, *, before: bool) -> "ir.Value":
    import onnx_ir as ir

    writer = Writer(graph, counted=True)
    domain = "com.microsoft" if steps.zero_point().itemsize > 1 else ""  # ONNX has sixteen bits from opset 21 on
    if domain:
        graph.opset_imports.setdefault(domain, 1)
    scale = writer.constant(f"{value.name}_scale", np.asarray(steps.scale))
    zero = writer.constant(f"{value.name}_zero_point", steps.zero_point())
    down = writer.node("QuantizeLinear", (value, scale, zero), f"{value.name}_rounded", like=value, domain=domain)
    up = writer.node(
        "DequantizeLinear", (down.outputs[0], scale, zero), f"{value.name}_fake", like=value, domain=domain
    )
    up.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    if before:
        graph.insert_before(node, [down, up])
    else:
        graph.insert_after(node, [down, up])
    return up.outputs[0]


def _is_symmetric(context: SchemeContext) -> bool:
    return eight_bits_of(context.backend).symmetric or context.settings.symmetric_activations


def range_of(context: SchemeContext, bits: int) -> flows.RangeOf:
    """Returns a function that finds a value's range, calibrated or derived from a constant, Relu or Clip."""

    def find(value: "ir.Value") -> Range | None:
        kept = kept_range(value, context, bits)
        if kept is not None:
            return kept
        if (array := constant(value)) is not None and array.dtype == np.float32 and array.size:
            return Range(float(array.min()), float(array.max()))
        node = value.producer()
        if node is None:
            return None
        if is_op(node, "DequantizeLinear"):
            return _range_of_integers(node)
        if is_op(node, "Relu", "Clip"):
            kept = find(node.inputs[0])
            return flows.bounded(value, kept) if kept is not None else None
        readers = uses(value)
        rounding = next((reader for reader, _ in readers if is_op(reader, "QuantizeLinear")), None)
        if rounding is not None:
            return _range_of_integers(rounding)
        if len(readers) == 1 and is_op(readers[0][0], "Relu", "Clip") and not value.is_graph_output():
            return kept_range(readers[0][0].outputs[0], context, bits)
        return None

    return find


def _range_of_integers(node: "ir.Node") -> Range | None:
    """Returns the range of a quantized tensor, from the constants of its QuantizeLinear or DequantizeLinear."""
    scale, zero = (constant(node.inputs[k]) if len(node.inputs) > k else None for k in (1, 2))
    if scale is None or zero is None or scale.size != 1 or zero.dtype.kind not in "iu":
        return None
    limits, step, middle = np.iinfo(str(zero.dtype)), float(scale.reshape(-1)[0]), int(zero.reshape(-1)[0])
    return Range((int(limits.min) - middle) * step, (int(limits.max) - middle) * step)


def write(bits: int, model: "ir.Model", layers: "tuple[Layer, ...]", context: SchemeContext) -> tuple[Change, ...]:
    graph, rules = model.graph, eight_bits_of(context.backend)
    found = nodes_by_key(graph)
    nodes = {found[key]: layer for layer in layers for key in layer.nodes}
    writer = Writer(graph)
    smoothing = context.smoothing if bits == _SMOOTHED_BITS else {}
    _smooth(writer, found, layers, smoothing)
    through = rules.style == "through"
    if through:
        flow = flows.through(
            nodes, range_of(context, bits), symmetric=_is_symmetric(context), everywhere=rules.everywhere
        )
    else:
        flow = flows.inputs_only(nodes, range_of(context, bits))
    seconds = {
        node.inputs[1]
        for node, layer in nodes.items()
        if not layer.weight and node.inputs[0] is not node.inputs[1]
    }
    steps = {
        value: steps_of(kept, context, bits, second=value in seconds and not through)
        for value, kept in flow.ranges.items()
    }
    for layer in layers:
        if layer.weight:
            own = [found[key] for key in layer.nodes]
            _write_weights(writer, layer, own, context, steps if through else {}, smoothing.get(layer.name))
    for value in flow.ranges:
        down = _write_pair(writer, value, steps[value], flow)
        if down is not None and _is_openvino(context) and _comes_of_extreme(down.inputs[0]):
            _set_apart(writer, down)
    what = f"rounded {plural(len(nodes), 'product')} to eight bits, activations to {bits}"
    return (Change(what, tuple(key for layer in layers for key in layer.nodes)),)


def _smooth(
    writer: Writer,
    found: "Mapping[str, ir.Node]",
    layers: tuple[Layer, ...],
    smoothing: Mapping[str, Smoothing],
) -> None:
    """Makes layers read divided activations; layers with the same tensor share the division."""
    made: dict[str, ir.Value] = {}
    for layer in layers:
        if layer.name not in smoothing:
            continue
        how = smoothing[layer.name]
        for node in (found[key] for key in layer.nodes):
            if how.tensor not in made:
                dividing = division(writer, node.inputs[0], how)
                writer.behind(node.inputs[0], [dividing])
                made[how.tensor] = dividing.outputs[0]
            node.replace_input_with(0, made[how.tensor])


def _write_pair(writer: Writer, value: "ir.Value", steps: Steps, flow: flows.Flow) -> "ir.Node | None":
    """Writes a pair for a value and returns its QuantizeLinear, or None for a constant, which is stored."""
    if (array := constant(value)) is not None:
        read_by(value, _stored(writer, value, array, steps), flow.readers[value])
        return None
    down, up = writer.pair(value, steps)
    result = up.outputs[0]
    read_by(value, result, flow.readers[value])
    if value in flow.quantized:
        give_as_output(writer, value, result)
    if value in flow.folded and not value.is_graph_output():
        # Rounding to the range also clips as the Relu or Clip does; runtimes fuse only directly connected
        # operators.
        down.replace_input_with(0, flow.folded[value])
    return down


def _comes_of_extreme(value: "ir.Value | None") -> bool:
    """Whether OpenVINO would fuse the rounding of a value into a reduction to a maximum or minimum."""
    while value is not None and (node := value.producer()) is not None:
        if is_op(node, "ReduceMax", "ReduceMin"):
            return True
        computed = [each for each in node.inputs if each is not None and constant(each) is None]
        if not is_op(node, *_FUSED_WITH_REDUCTIONS) or len(computed) != 1:
            return False
        value = computed[0]
    return False


def _set_apart(writer: Writer, down: "ir.Node") -> None:
    """Inserts a maximum that changes nothing before the rounding; see `edgeopt.quant.openvino_defects`."""
    value = down.inputs[0]
    assert value is not None  # noqa: S101 - it rounds something
    lowest = writer.constant(f"{value.name}_lowest", np.asarray(LOWEST))
    apart = writer.node("Max", (value, lowest), f"{value.name}_apart", like=value)
    writer.graph.insert_before(down, apart)
    down.replace_input_with(0, apart.outputs[0])


def _stored(writer: Writer, value: "ir.Value", array: Array, steps: Steps) -> "ir.Value":
    """Stores a constant that is not a weight in integers, and returns its dequantized value."""
    import onnx_ir as ir

    inputs = [
        writer.constant(f"{value.name}_quantized", steps.rounded(array)),
        writer.constant(f"{value.name}_scale", np.asarray(steps.scale)),
        writer.constant(f"{value.name}_zero_point", steps.zero_point()),
    ]
    up = writer.node("DequantizeLinear", inputs, f"{value.name}_dequantized", like=value, kind=ir.DataType.FLOAT)
    writer.graph.insert_before(writer.graph[0], up)
    return up.outputs[0]


def _write_weights(
    writer: Writer,
    layer: Layer,
    nodes: "list[ir.Node]",
    context: SchemeContext,
    steps: "Mapping[ir.Value, Steps]",
    smoothing: Smoothing | None,
) -> None:
    import onnx_ir as ir

    value = nodes[0].inputs[1]
    weight = context.weights.get(layer.weight)
    if weight is None:
        weight = constant(value)
    assert weight is not None and value is not None  # noqa: PT018, S101 - a layer with weights has them
    if smoothing is not None:
        weight = multiplied(weight, layer, smoothing)
    axis = axis_of(layer, context)
    scales = scales_of(weight, layer, context)
    for node in nodes:
        scales = _wide_enough(scales, _bias(node, steps), steps.get(node.inputs[0]))
    name = layer.weight
    integers = writer.constant(f"{name}_quantized", rounded_weight(weight, scales, axis, largest(context)))
    scale = writer.constant(f"{name}_scale", scales)
    zero = writer.constant(f"{name}_zero_point", np.zeros(scales.shape, np.int8))
    up = writer.node(
        "DequantizeLinear",
        (integers, scale, zero),
        f"{name}_dequantized",
        like=value,
        kind=ir.DataType.FLOAT,
        attributes={"axis": axis} if axis is not None else None,
    )
    writer.graph.insert_before(nodes[0], up)
    for node in nodes:
        node.replace_input_with(1, up.outputs[0])
        bias = _bias(node, steps)
        if bias is not None:
            _write_bias(writer, node, bias, scales, steps[node.inputs[0]])
        elif _is_openvino(context) and _needs_bias(node):
            node.resize_inputs(3)
            channels = np.full(layer.weight_shape[0], NO_BIAS)
            node.replace_input_with(2, writer.constant(f"{node.outputs[0].name}_no_bias", channels))


def _is_openvino(context: SchemeContext) -> bool:
    """Whether OpenVINO runs the model, also as a provider of ONNX Runtime or on a device of its choice."""
    return "openvino" in context.backend


def _needs_bias(node: "ir.Node") -> bool:
    """Whether OpenVINO would give each reader of a convolution other values; see
    `edgeopt.quant.openvino_defects`."""
    readers = sum(1 for _ in node.outputs[0].uses()) + node.outputs[0].is_graph_output()
    return is_op(node, "Conv") and (len(node.inputs) < 3 or node.inputs[2] is None) and readers > 1


def _bias(node: "ir.Node", steps: "Mapping[ir.Value, Steps]") -> Array | None:
    """Returns the bias of a product as a vector, or None if it has none that is written in integers."""
    if not steps or not is_op(node, "Conv", "Gemm") or len(node.inputs) < 3 or node.inputs[2] is None:
        return None
    bias = constant(node.inputs[2])
    return bias.reshape(-1) if bias is not None and (bias.ndim == 1 or bias.shape[:-1] == (1,)) else None


def _wide_enough(scales: Array, bias: Array | None, steps: Steps | None) -> Array:
    """Returns scales with which the bias fits into 32 bits; only channels with tiny weights change."""
    if bias is None or steps is None:
        return scales
    minimum = np.abs(bias) / (np.float64(steps.scale) * _LARGEST_BIAS)
    return np.maximum(scales, minimum if scales.ndim else minimum.max()).astype(np.float32)


def _write_bias(writer: Writer, node: "ir.Node", bias: Array, scales: Array, steps: Steps) -> None:
    import onnx_ir as ir

    name = str(node.inputs[2].name)
    # Smaller scales underflow in float32; the outputs of such channels are practically zero, and so is this bias.
    scale = np.maximum(scales.astype(np.float64) * steps.scale, _SMALLEST_PRODUCT).astype(np.float32)
    integers = np.rint(bias.astype(np.float64) / scale).astype(np.int32)
    inputs = [
        writer.constant(f"{name}_quantized", integers),
        writer.constant(f"{name}_scale", scale),
        writer.constant(f"{name}_zero_point", np.zeros(scale.shape, np.int32)),
    ]
    up = writer.node(
        "DequantizeLinear",
        inputs,
        f"{name}_dequantized",
        kind=ir.DataType.FLOAT,
        attributes={"axis": 0} if scale.ndim else None,
    )
    writer.graph.insert_before(node, up)
    node.replace_input_with(2, up.outputs[0])


INT8 = Scheme(
    name="int8",
    title="eight bits for weights and activations, with calibrated ranges",
    operators=PRODUCTS,
    backends=(
        *("onnxruntime-cpu", "onnxruntime-xnnpack", "onnxruntime-directml", "onnxruntime-qnn"),
        *("onnxruntime-tensorrt", "onnxruntime-openvino"),
        *("openvino-cpu", "openvino-gpu", "openvino-npu", "openvino-auto"),
    ),
    lowest_opset=13,
    needs_ranges=True,
    fits=partial(fits, 8),
    write=partial(write, 8),
    fake_weights=fake_weights,
    fake_input=partial(fake_input, 8),
    fake_output=partial(fake_output, 8),
    smooths=True,
)


A16W8 = Scheme(
    name="a16w8",
    title="eight bits for weights, sixteen for activations, with calibrated ranges",
    operators=PRODUCTS,
    backends=("onnxruntime-qnn",),
    lowest_opset=21,
    needs_ranges=True,
    fits=partial(fits, 16),
    write=partial(write, 16),
    fake_weights=fake_weights,
    fake_input=partial(fake_input, 16),
    fake_output=partial(fake_output, 16),
)
