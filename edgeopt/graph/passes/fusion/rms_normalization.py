"""The parts of an RMS normalization become RMSNormalization.

    y = x / sqrt(mean(x^2) + epsilon) * scale

over the last dimensions; the scale may be missing.
"""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Pass, PassContext, PassResult, is_op
from edgeopt.graph.passes.fusion.layer_normalization import find_layer_normalization
from edgeopt.graph.passes.knowledge.matching import Found, fuse
from edgeopt.graph.passes.knowledge.normal import affine, normalized, ones, sizes

if TYPE_CHECKING:
    import onnx_ir as ir

OPSET = 23


def find_rms_normalization(node: "ir.Node") -> Found | None:
    """The RMS normalization whose mean square this ReduceMean is, unless it is part of a layer normalization."""
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
    return Found(root, tuple(nodes), "RMSNormalization", inputs, attributes, opset=OPSET, reason=reason)


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Fuses every RMS normalization, in subgraphs and functions too."""
    return fuse(model, context, find_rms_normalization, "RMS normalization")


PASS = Pass(
    "rms-normalization",
    "RMS normalizations written as several nodes become one operator",
    apply,
    100.0,
    lowest_opset=OPSET,
)
