"""Forms of operators that only OpenVINO computes faster.

    a @ Transpose(b, [0, 2, 3, 1])            =  a @ Transpose(Transpose(b, [0, 2, 1, 3]), [0, 1, 3, 2])
    Conv(x, w), a line, kernel 1              =  w @ x (+ bias)
    Transpose(Reshape(Conv(x, w))), patches   =  Reshape(Transpose(Reshape(x))) @ w (+ bias)

The first moves whole rows, and the product reads them turned; passes for every runtime make one Transpose of the
two. The last is how pictures become tokens: kernel and step are the side of a patch. Measured by
`benchmarks/operator_forms.py` (version 2026.4).
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.graph.passes.base import Pass, PassContext, PassResult, constant, is_op, label
from edgeopt.graph.passes.knowledge.forms import OperatorForm, inner, maker, rewrite, take_place
from edgeopt.graph.passes.knowledge.linear import integer, new_weight, pads
from edgeopt.graph.passes.knowledge.matching import rank

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray

ONLY_HERE = ("openvino",)
_KEYS = [0, 2, 3, 1]
_HEADS, _SWAP = [0, 2, 1, 3], [0, 1, 3, 2]
_TOKENS = [0, 2, 1]


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Rewrites every operator into the form that is fastest in OpenVINO."""
    return rewrite(model, context, FORMS)


def _keys(graph: "ir.Graph", node: "ir.Node") -> "list[str] | str | None":
    import onnx_ir as ir

    turn = maker(node, "Transpose", 1) if is_op(node, "MatMul") else None
    if turn is None or _numbers(turn, "perm") != _KEYS or constant(turn.inputs[0]) is not None:
        return None
    if inner(node, "Transpose", place=1) is None:
        return f"what {label(turn)} gives is used elsewhere too"
    heads = ir.node("Transpose", turn.inputs, {"perm": _HEADS})
    graph.insert_before(turn, heads)
    gone = label(turn)
    take_place(graph, turn, ir.node("Transpose", heads.outputs, {"perm": _SWAP}, name=turn.name))
    return [gone]


def _pointwise(graph: "ir.Graph", node: "ir.Node") -> "list[str] | str | None":
    import onnx_ir as ir

    weights = _plain(node, 3)
    if weights is None or weights.shape[2] != 1 or _numbers(node, "strides") not in ([], [1]):
        return None
    stem, gone = node.name or node.outputs[0].name, label(node)
    matrix = new_weight(graph, f"{stem}_matrix", weights[:, :, 0])
    _with_bias(graph, node, ir.node("MatMul", [matrix, node.inputs[0]], name=node.name), node, (-1, 1))
    return [gone]


def _patches(graph: "ir.Graph", node: "ir.Node") -> "list[str] | str | None":
    import onnx_ir as ir

    flat = inner(node, "Reshape") if is_op(node, "Transpose") and _numbers(node, "perm") == _TOKENS else None
    conv = inner(flat, "Conv")
    weights = _plain(conv, 4) if conv is not None else None
    if conv is None or flat is None or weights is None:
        return None
    picture, tokens = conv.inputs[0], node.outputs[0]
    count, channels, *sides = weights.shape
    if picture is None or picture.shape is None or tokens.shape is None or _numbers(conv, "strides") != sides:
        return None
    height, width = picture.shape[2], picture.shape[3]
    if not isinstance(height, int) or not isinstance(width, int) or height % sides[0] or width % sides[1]:
        return None  # what is left over at the border is not looked at
    rows, columns = height // sides[0], width // sides[1]
    if list(tokens.shape)[1:] != [rows * columns, count]:
        return None
    stem, gone = conv.name or conv.outputs[0].name, [label(one) for one in (conv, flat, node)]
    inside = channels * sides[0] * sides[1]
    cut = [0, channels, rows, sides[0], columns, sides[1]]
    steps = [ir.node("Reshape", [picture, _shape(graph, f"{stem}_patches", cut)])]
    steps.append(ir.node("Transpose", steps[-1].outputs, {"perm": [0, 2, 4, 1, 3, 5]}))
    flatten = _shape(graph, f"{stem}_tokens", [0, rows * columns, inside])
    steps.append(ir.node("Reshape", [steps[-1].outputs[0], flatten]))
    graph.insert_before(node, steps)
    matrix = new_weight(graph, f"{stem}_matrix", weights.reshape(count, inside).T)
    _with_bias(graph, node, ir.node("MatMul", [steps[-1].outputs[0], matrix], name=conv.name), conv, (-1,))
    graph.remove([flat, conv], safe=True)
    return gone


def _with_bias(
    graph: "ir.Graph", old: "ir.Node", product: "ir.Node", conv: "ir.Node", shape: tuple[int, ...]
) -> None:
    """Replaces a node by a product, with the bias of a convolution."""
    import onnx_ir as ir

    bias = constant(conv.inputs[2]) if len(conv.inputs) > 2 else None
    if bias is not None:
        graph.insert_before(old, product)
        product.outputs[0].shape, product.outputs[0].type = old.outputs[0].shape, old.outputs[0].type
        shift = new_weight(graph, f"{conv.name or old.outputs[0].name}_shift", bias.reshape(shape))
        product = ir.node("Add", [product.outputs[0], shift])
    take_place(graph, old, product)


def _plain(conv: "ir.Node", dimensions: int) -> "NDArray[Any] | None":
    """Returns the constant weights of a convolution without groups, padding or dilation, otherwise None."""
    if not is_op(conv, "Conv") or rank(conv.inputs[1]) != dimensions or integer(conv, "group", 1) != 1:
        return None
    if pads(conv) or any(step != 1 for step in _numbers(conv, "dilations")):
        return None
    if len(conv.inputs) > 2 and conv.inputs[2] is not None and constant(conv.inputs[2]) is None:
        return None
    weights = constant(conv.inputs[1])
    return weights if weights is not None and weights.dtype == np.float32 else None


def _shape(graph: "ir.Graph", name: str, shape: list[int]) -> "ir.Value":
    return new_weight(graph, name, np.asarray(shape, np.int64))


def _numbers(node: "ir.Node", name: str) -> list[int]:
    return list(node.attributes[name].as_ints()) if name in node.attributes else []


FORMS = (
    OperatorForm("turned keys in two steps", _keys, ONLY_HERE),
    OperatorForm("multiplied by a matrix instead of convolving single places", _pointwise, ONLY_HERE),
    OperatorForm("multiplied patches of a picture by a matrix", _patches, ONLY_HERE),
)

PASS = Pass("openvino-forms", "operators in the form that OpenVINO computes fastest", apply, 100.0)
