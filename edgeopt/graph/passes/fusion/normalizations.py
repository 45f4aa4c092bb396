"""Fusion of decomposed layer and RMS normalizations: x / sqrt(mean(y^2) + epsilon), and the affine part after."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Pass, PassContext, PassResult, constant, is_op
from edgeopt.graph.passes.knowledge.matching import (
    PatternMatch,
    fuse,
    integers,
    operands,
    polynomial,
    producer,
    rank,
    scalar,
    tensor_like,
)

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class Normalized:
    """A normalization: `output` is `x` over its root mean square along `axis` and all later axes."""

    x: "ir.Value"
    output: "ir.Value"
    axis: int
    """First normalized axis, counted from the end (negative)."""
    epsilon: float
    nodes: "tuple[ir.Node, ...]"


def normalized(mean: "ir.Node") -> Normalized | None:
    """Matches a root-mean-square normalization around the ReduceMean of its squares, in any spelling."""
    axis = mean_axis(mean)
    squared = _squared(mean.inputs[0]) if axis is not None else None
    if axis is None or squared is None:
        return None
    x, square = squared
    for use in mean.outputs[0].uses():
        if not is_op(use.node, "Add"):
            continue
        total = polynomial(use.node.outputs[0], (mean.outputs[0],), 1)
        epsilon = total.terms.get((0,)) if total is not None else None
        if total is None or not epsilon or not total.equals({(1,): 1.0, (0,): epsilon}, x):
            continue
        found = _quotient(x, use.node.outputs[0])
        if found is not None:
            output, nodes = found
            return Normalized(x, output, axis, epsilon, (mean, square, use.node, *nodes))
    return None


def mean_axis(node: "ir.Node | None") -> int | None:
    """Returns the first of the trailing axes of a ReduceMean, counted from the end; None for other nodes."""
    if node is None or not is_op(node, "ReduceMean"):
        return None
    if "keepdims" in node.attributes and not node.attributes["keepdims"].as_int():
        return None
    if "axes" in node.attributes:
        axes: tuple[int, ...] | None = tuple(node.attributes["axes"].as_ints())
    else:
        axes = integers(node.inputs[1]) if len(node.inputs) > 1 else None
    if not axes:
        return None
    dimensions = rank(node.inputs[0])
    if any(axis >= 0 for axis in axes):
        if dimensions is None:
            return None
        axes = tuple(axis - dimensions if axis >= 0 else axis for axis in axes)
    return min(axes) if sorted(axes) == list(range(min(axes), 0)) else None


def _squared(value: "ir.Value | None") -> "tuple[ir.Value, ir.Node] | None":
    power = producer(value, "Pow")
    if power is not None and power.inputs[0] is not None and scalar(power.inputs[1]) == 2.0:
        return power.inputs[0], power
    product = producer(value, "Mul")
    if product is not None and product.inputs[0] is product.inputs[1] and product.inputs[0] is not None:
        return product.inputs[0], product
    return None


def _quotient(x: "ir.Value", variance: "ir.Value") -> "tuple[ir.Value, tuple[ir.Node, ...]] | None":
    """Matches x / sqrt(variance), as a division, a reciprocal, 1 / root, or a power of -0.5."""
    for use in variance.uses():
        exponent = scalar(use.node.inputs[1]) if is_op(use.node, "Pow") else None
        if is_op(use.node, "Sqrt") or exponent == 0.5:
            root = use.node.outputs[0]
            for below in root.uses():
                node = below.node
                if is_op(node, "Div") and node.inputs[1] is root:
                    if node.inputs[0] is x:
                        return node.outputs[0], (use.node, node)
                    if scalar(node.inputs[0]) == 1.0 and (found := _times(x, node.outputs[0])):
                        return found.outputs[0], (use.node, node, found)
                if is_op(node, "Reciprocal") and (found := _times(x, node.outputs[0])):
                    return found.outputs[0], (use.node, node, found)
        elif exponent == -0.5 and (found := _times(x, use.node.outputs[0])):
            return found.outputs[0], (use.node, found)
    return None


def _times(x: "ir.Value", factor: "ir.Value") -> "ir.Node | None":
    for use in factor.uses():
        if is_op(use.node, "Mul") and any(one is x and other is factor for one, other in operands(use.node)):
            return use.node
    return None


def affine(value: "ir.Value", kind: str, x: "ir.Value", axis: int) -> "tuple[ir.Value, ir.Node] | None":
    """Returns the weight that is multiplied with or added to a value, if its shape fits the normalized part."""
    users = [use.node for use in value.uses()]
    if len(users) != 1 or not is_op(users[0], kind) or value.is_graph_output():
        return None
    for one, weight in operands(users[0]):
        if one is not value or weight is value:
            continue
        normalized = sizes(x, axis)
        array = constant(weight)
        if (
            array is not None
            and normalized is not None
            and array.shape[-len(normalized) :] == normalized
            and array.ndim == -axis
        ):
            return weight, users[0]
    return None


def sizes(x: "ir.Value", axis: int) -> tuple[int, ...] | None:
    """Returns the sizes of the normalized dimensions, if all are known."""
    if x.shape is None or len(x.shape) < -axis:
        return None
    extents = tuple(x.shape[axis:])
    return tuple(int(e) for e in extents) if all(isinstance(e, int) for e in extents) else None


def ones(x: "ir.Value", axis: int) -> "ir.Tensor":
    """Returns a neutral scale."""
    import numpy as np

    return tensor_like(x, np.ones(sizes(x, axis) or ()))


LAYER_OPSET = 17


def find_layer_normalization(node: "ir.Node") -> PatternMatch | None:
    """Matches the layer normalization whose variance is this ReduceMean."""
    normal = normalized(node) if is_op(node, "ReduceMean") else None
    centred = producer(normal.x, "Sub") if normal is not None else None
    if normal is None or centred is None or centred.inputs[0] is None:
        return None
    x, mean = centred.inputs[0], producer(centred.inputs[1], "ReduceMean")
    if mean is None or mean.inputs[0] is not x or mean_axis(mean) != normal.axis:
        return None
    nodes, result = [*normal.nodes, centred, mean], normal.output
    scale, shift = affine(result, "Mul", x, normal.axis), None
    if scale is not None:
        nodes.append(scale[1])
        result = scale[1].outputs[0]
        shift = affine(result, "Add", x, normal.axis)
        if shift is not None:
            nodes.append(shift[1])
            result = shift[1].outputs[0]
    root = result.producer()
    assert root is not None, "the results of nodes have producers"  # noqa: S101 - tells mypy
    reason = None
    if scale is None and sizes(x, normal.axis) is None:
        reason = "the size of the normalized dimension is not known"
    elif x.dtype is not None and x.dtype.itemsize > 4:
        reason = "the numbers are float64, and LayerNormalization would compute in float32"
    inputs = (x, scale[0] if scale else ones(x, normal.axis), *((shift[0],) if shift else ()))
    attributes = {"axis": normal.axis, "epsilon": normal.epsilon}
    return PatternMatch(
        root, tuple(nodes), "LayerNormalization", inputs, attributes, opset=LAYER_OPSET, reason=reason
    )


def apply_layer_normalization(model: "ir.Model", context: PassContext) -> PassResult:
    """Fuses the parts of a layer normalization into LayerNormalization.

        y = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * scale + shift

    over the last dimensions; scale and shift may be missing.
    """
    return fuse(model, context, find_layer_normalization, "layer normalization")


LAYER_NORMALIZATION = Pass(
    "layer-normalization",
    "layer normalizations written as several nodes become one operator",
    apply_layer_normalization,
    100.0,
    lowest_opset=LAYER_OPSET,
)

RMS_OPSET = 23


def find_rms_normalization(node: "ir.Node") -> PatternMatch | None:
    """Matches the RMS normalization around the ReduceMean of its squares, if not part of a layer normalization."""
    normal = normalized(node) if is_op(node, "ReduceMean") else None
    if normal is None or find_layer_normalization(node) is not None:
        return None
    x, nodes, result = normal.x, list(normal.nodes), normal.output
    scale = affine(result, "Mul", x, normal.axis)
    if scale is not None:
        nodes.append(scale[1])
        result = scale[1].outputs[0]
    root = result.producer()
    assert root is not None, "the results of nodes have producers"  # noqa: S101 - tells mypy
    reason = None
    if scale is None and sizes(x, normal.axis) is None:
        reason = "the size of the normalized dimension is not known"
    elif x.dtype is not None and x.dtype.itemsize > 4:
        reason = "the numbers are float64, and RMSNormalization would compute in float32"
    inputs = (x, scale[0] if scale else ones(x, normal.axis))
    attributes = {"axis": normal.axis, "epsilon": normal.epsilon}
    return PatternMatch(root, tuple(nodes), "RMSNormalization", inputs, attributes, opset=RMS_OPSET, reason=reason)


def apply_rms_normalization(model: "ir.Model", context: PassContext) -> PassResult:
    """Fuses the parts of an RMS normalization into RMSNormalization.

        y = x / sqrt(mean(x^2) + epsilon) * scale

    over the last dimensions; the scale may be missing.
    """
    return fuse(model, context, find_rms_normalization, "RMS normalization")


RMS_NORMALIZATION = Pass(
    "rms-normalization",
    "RMS normalizations written as several nodes become one operator",
    apply_rms_normalization,
    100.0,
    lowest_opset=RMS_OPSET,
)
