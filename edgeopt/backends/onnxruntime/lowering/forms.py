"""Forms that ONNX Runtime alone computes faster.

    x ** 2                             =  x * x
    Clip(x + b, 0, c) * f              =  HardSigmoid(x, f, b f)     c f = 1; it goes into a convolution before
    Conv(x, w) in groups of 4 or 8     =  Conv(x, w') in groups of 16, with zeros between in w'

Measured by `benchmarks/operator_forms.py` with AVX-512, whose kernels take 16 channels at a time (version 1.31).
What is spelled out (a normalization) stays together, so this runs after the fusions.
"""

from typing import TYPE_CHECKING

import numpy as np

from edgeopt.graph.passes.base import Pass, PassContext, PassResult, constant, is_op, label
from edgeopt.graph.passes.knowledge.forms import Form, inner, rewrite, take_place
from edgeopt.graph.passes.knowledge.linear import integer, new_weight
from edgeopt.graph.passes.knowledge.matching import near, operands, rank, scalar

if TYPE_CHECKING:
    import onnx_ir as ir

ONLY_HERE = ("onnxruntime",)
_BLOCK = 16
_NARROW = (4, 8)
_LARGEST_BYTES = 4 << 20


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Puts every operator into the form that wins in ONNX Runtime."""
    return rewrite(model, context, FORMS)


def _square(graph: "ir.Graph", node: "ir.Node") -> "list[str] | str | None":
    import onnx_ir as ir

    x = node.inputs[0] if is_op(node, "Pow") else None
    if x is None or not _is_float32(x) or scalar(node.inputs[1]) != 2.0:
        return None
    if (rank(node.inputs[1]) or 0) > (rank(x) or 0):
        return None  # it gives the result a dimension more
    gone = label(node)
    take_place(graph, node, ir.node("Mul", [x, x], name=node.name))
    return [gone]


def _hard_sigmoid(graph: "ir.Graph", node: "ir.Node") -> "list[str] | str | None":
    import onnx_ir as ir

    if not is_op(node, "Mul", "Div") or len(node.inputs) != 2:
        return None
    clip = inner(node, "Clip") or (inner(node, "Clip", place=1) if node.op_type == "Mul" else None)
    add = inner(clip, "Add")
    if clip is None or add is None or len(clip.inputs) != 3 or scalar(clip.inputs[1]) != 0.0:
        return None
    top, number = scalar(clip.inputs[2]), scalar(node.inputs[1 - list(node.inputs).index(clip.outputs[0])])
    for x, shift in operands(add):
        begin = scalar(shift)
        if not number or not top or begin is None or (rank(shift) or 0) > (rank(x) or 0):
            continue
        factor = 1 / number if node.op_type == "Div" else number
        if not _is_float32(x) or not near(top * factor, 1.0, x):
            continue
        gone = [label(one) for one in (add, clip, node)]
        gate = ir.node("HardSigmoid", [x], {"alpha": factor, "beta": begin * factor}, name=node.name)
        take_place(graph, node, gate)
        graph.remove([clip, add], safe=True)
        return gone
    return None


def _narrow_groups(graph: "ir.Graph", node: "ir.Node") -> "list[str] | str | None":
    import onnx_ir as ir

    weights = constant(node.inputs[1]) if is_op(node, "Conv") else None
    groups = integer(node, "group", 1)
    if weights is None or weights.ndim != 4 or weights.dtype != np.float32 or weights.shape[1] not in _NARROW:
        return None
    width, merged = weights.shape[1], _BLOCK // weights.shape[1]
    if len(weights) != width * groups or groups % merged:
        return None
    if weights.nbytes * merged > _LARGEST_BYTES:
        return "its weights would be too large with zeros between the groups"
    wide = np.zeros((len(weights), _BLOCK, *weights.shape[2:]), np.float32)
    for place in range(merged):
        rows = np.arange(len(weights)) // width % merged == place
        wide[rows, place * width : (place + 1) * width] = weights[rows]
    stem, gone = node.name or node.outputs[0].name, label(node)
    inputs = [node.inputs[0], new_weight(graph, f"{stem}_wide", wide), *node.inputs[2:]]
    conv = ir.node("Conv", inputs, dict(node.attributes), name=node.name)
    conv.attributes["group"] = ir.AttrInt64("group", groups // merged)
    take_place(graph, node, conv)
    return [gone]


def _is_float32(value: "ir.Value") -> bool:
    return value.dtype is not None and value.dtype.name == "FLOAT"


FORMS = (
    Form("squared by a product", _square, ONLY_HERE),
    Form("fused a hard sigmoid", _hard_sigmoid, ONLY_HERE),
    Form("convolved in groups of 16 channels", _narrow_groups, ONLY_HERE),
)

PASS = Pass("ort-forms", "operators in the form that ONNX Runtime computes fastest", apply, 100.0)
