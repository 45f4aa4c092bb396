"""The parts of a layer normalization become LayerNormalization.

    y = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * scale + shift

over the last dimensions; scale and shift may be missing.
"""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Pass, PassContext, PassResult, is_op
from edgeopt.graph.passes.knowledge.matching import Found, fuse, producer
from edgeopt.graph.passes.knowledge.normal import affine, mean_axis, normalized, ones, sizes

if TYPE_CHECKING:
    import onnx_ir as ir

OPSET = 17


def find_layer_normalization(node: "ir.Node") -> Found | None:
    """The layer normalization whose variance this ReduceMean is."""
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
    return Found(root, tuple(nodes), "LayerNormalization", inputs, attributes, opset=OPSET, reason=reason)


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Fuses every layer normalization, in subgraphs and functions too."""
    return fuse(model, context, find_layer_normalization, "layer normalization")


PASS = Pass(
    "layer-normalization",
    "layer normalizations written as several nodes become one operator",
    apply,
    100.0,
    lowest_opset=OPSET,
)
