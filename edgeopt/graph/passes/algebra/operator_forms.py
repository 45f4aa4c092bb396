"""Replacement of operators by equivalent forms that runtimes compute fastest.

    x / c                                              =  x * (1 / c)            c constant, and no zero in it
    x ** 0.5                                           =  Sqrt(x)                but for -inf
    Max(x, 0)                                          =  Relu(x)
    Max(x, a x)                                        =  LeakyRelu(x, a)        0 < a < 1
    PRelu(x, a)                                        =  LeakyRelu(x, a)        one slope for all
    Min(Relu(x), c)                                    =  Clip(x, 0, c)          c > 0
    Reshape(Transpose(Reshape(x, [n, g, k, ...])))     =  Gather(x, order)       channels shuffled between groups
    Conv(x, w), a group a channel, kernel 1            =  x * w (+ bias)
    Conv(x, w), a group a channel, two results each    =  Conv(Gather(x, each twice), w), one result each

The table contains forms that `benchmarks/operator_forms.py` measured to win in one runtime and to lose in none;
its other rows show forms that do not win. A form that wins in one runtime and loses in another is a lowering of
the first. Nodes that runtimes fuse when they load (such as a decomposed GELU) stay together.
"""

from typing import TYPE_CHECKING

import numpy as np

from edgeopt.graph.passes.base import Pass, PassContext, PassResult, constant, is_op, label
from edgeopt.graph.passes.knowledge.arithmetic import may_divide_by, never_negative_zero
from edgeopt.graph.passes.knowledge.forms import OperatorForm, inner, maker, rewrite, take_place
from edgeopt.graph.passes.knowledge.linear import EPSILON, FLOATS, integer, new_weight, pads
from edgeopt.graph.passes.knowledge.matching import operands, rank, scalar

if TYPE_CHECKING:
    import onnx_ir as ir

_SMALLEST_NORMAL = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022}


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Replaces operators by forms that are faster in one runtime and slower in none."""
    return rewrite(model, context, FORMS)


def _divide(graph: "ir.Graph", node: "ir.Node") -> "list[str] | str | None":
    import onnx_ir as ir

    divisor = constant(node.inputs[1]) if is_op(node, "Div") else None
    if divisor is None or divisor.dtype.name not in FLOATS:
        return None
    exact = divisor.astype(np.float64)
    with np.errstate(all="ignore"):
        factor = (1.0 / exact).astype(divisor.dtype)
        # Near the ends of a type's range a reciprocal has fewer digits (1 / 60000 in float16 is 0.2 % off), and
        # some runtimes flush numbers below the smallest normal one to 0.
        precise = np.abs(factor.astype(np.float64) * exact - 1) <= EPSILON[divisor.dtype.name]
        precise &= np.abs(factor.astype(np.float64)) >= _SMALLEST_NORMAL[factor.dtype.name]
    if not precise.all():
        named = node.inputs[1].name if node.inputs[1] else ""
        return f"the reciprocal of '{named}' is not a normal number of its type"
    gone = label(node)
    result = node.outputs[0]
    weight = new_weight(graph, f"{node.name or result.name}_reciprocal", factor)
    product = ir.node("Mul", [node.inputs[0], weight], name=node.name)
    take_place(graph, node, product)
    return [gone]


def _root(graph: "ir.Graph", node: "ir.Node") -> "list[str] | str | None":
    import onnx_ir as ir

    x = node.inputs[0] if is_op(node, "Pow") else None
    if not _is_float(x) or scalar(node.inputs[1]) != 0.5 or not _keeps_rank(node, 1):
        return None
    gone = label(node)
    take_place(graph, node, ir.node("Sqrt", [x], name=node.name))
    return [gone]


def _larger(graph: "ir.Graph", node: "ir.Node") -> "list[str] | str | None":
    import onnx_ir as ir

    if not is_op(node, "Max") or len(node.inputs) != 2:
        return None
    for x, other in operands(node):
        if not _is_float(x):
            continue
        if (
            scalar(other) == 0.0
            and never_negative_zero(other)
            and _keeps_rank(node, 1 - list(node.inputs).index(x))
        ):
            # Max gives +0 for -0, but Relu gives -0.
            if not never_negative_zero(x) and may_divide_by(node.outputs[0]):
                return "Relu keeps -0, and a later node may divide by it"
            gone = [label(node)]
            take_place(graph, node, ir.node("Relu", [x], name=node.name))
            return gone
        place = list(node.inputs).index(other)
        product = inner(node, "Mul", place=place)
        slope = next((scalar(a) for z, a in operands(product) if z is x), None) if product is not None else None
        if product is None or slope is None or not 0 < slope < 1 or not _is_attribute(slope):
            continue
        if not _keeps_rank(product, 1 - list(product.inputs).index(x)):
            continue
        gone = [label(product), label(node)]
        take_place(graph, node, ir.node("LeakyRelu", [x], {"alpha": slope}, name=node.name))
        graph.remove(product, safe=True)
        return gone
    return None


def _one_slope(graph: "ir.Graph", node: "ir.Node") -> "list[str] | str | None":
    import onnx_ir as ir

    slopes = constant(node.inputs[1]) if is_op(node, "PRelu") else None
    if slopes is None or not _is_float(node.inputs[0]) or not slopes.size or not _keeps_rank(node, 1):
        return None
    slope = float(slopes.reshape(-1)[0])
    if not (slopes == slopes.reshape(-1)[0]).all() or not _is_attribute(slope):
        return None
    if slopes.size > 1 and not _spreads_over(slopes.shape, node.inputs[0]):
        return None
    gone = label(node)
    take_place(graph, node, ir.node("LeakyRelu", [node.inputs[0]], {"alpha": slope}, name=node.name))
    return [gone]


def _smaller(graph: "ir.Graph", node: "ir.Node") -> "list[str] | str | None":
    import onnx_ir as ir

    if not is_op(node, "Min") or len(node.inputs) != 2:
        return None
    for _, limit in operands(node):
        place = 1 - list(node.inputs).index(limit)
        relu, top = inner(node, "Relu", place=place), constant(limit)
        if relu is None or top is None or top.dtype.name not in FLOATS or not _keeps_rank(node, 1 - place):
            continue
        if top.size != 1 or not top.item() > 0:
            continue
        stem, gone = node.name or node.outputs[0].name, [label(relu), label(node)]
        ends = [new_weight(graph, f"{stem}_{name}", np.asarray(number, top.dtype))
                for name, number in (("lowest", 0), ("highest", top.item()))]  # fmt: skip
        take_place(graph, node, ir.node("Clip", [relu.inputs[0], *ends], name=node.name))
        graph.remove(relu, safe=True)
        return gone
    return None


def _shuffle(graph: "ir.Graph", node: "ir.Node") -> "list[str] | str | None":
    import onnx_ir as ir

    middle = maker(node, "Transpose") if is_op(node, "Reshape") else None
    first = maker(middle, "Reshape") if middle is not None else None
    if middle is None or first is None or "perm" not in middle.attributes:
        return None
    source, split, result = first.inputs[0], first.outputs[0], node.outputs[0]
    if source is None or source.shape is None or split.shape is None or result.shape is None:
        return None
    dimensions = len(source.shape)
    order = [0, 2, 1, *range(3, dimensions + 1)]
    if len(split.shape) != dimensions + 1 or list(middle.attributes["perm"].as_ints()) != order:
        return None
    channels, groups, each = source.shape[1], split.shape[1], split.shape[2]
    if not (isinstance(channels, int) and isinstance(groups, int) and isinstance(each, int)):
        return None
    if groups * each != channels or list(source.shape) != list(result.shape):
        return None
    sides = list(source.shape)[2:]
    if list(split.shape)[3:] != sides or not all(isinstance(size, int) for size in sides):
        return None  # all but the batch is known, so the batch must be equal too
    for one in (first, middle):
        if one.outputs[0].is_graph_output() or len(one.outputs[0].uses()) > 1:
            return "the channels between the groups are used elsewhere too"
        if one.graph is not graph:
            return "the shuffle begins outside the subgraph that holds it"
    if groups != each and _reaches_convolution(result):
        return "OpenVINO computes the convolution behind it with its weights in another order"
    places = np.arange(channels).reshape(groups, each).T.reshape(-1).astype(np.int64)
    weight = new_weight(graph, f"{node.name or result.name}_order", places)
    gone = [label(each) for each in (first, middle, node)]
    take_place(graph, node, ir.node("Gather", [source, weight], {"axis": 1}, name=node.name))
    graph.remove([middle, first], safe=True)
    return gone


def _reaches_convolution(value: "ir.Value") -> bool:
    """Whether OpenVINO may move a Gather into the weights of a convolution; Split and groups of channels keep it.

    OpenVINO uses the order of the Gather instead of its inverse; the two are equal for equal groups.
    """
    waiting, seen = [value], {value}
    while waiting:
        for reader, _ in waiting.pop().uses():
            if is_op(reader, "Conv") and integer(reader, "group", 1) == 1:
                return True
            stops = is_op(reader, "Split") or (is_op(reader, "Conv") and _channels_in_group(reader) > 1)
            fresh = [] if stops else [one for one in reader.outputs if one not in seen]
            waiting += fresh
            seen.update(fresh)
    return False


def _channels_in_group(conv: "ir.Node") -> int:
    shape = conv.inputs[1].shape if conv.inputs[1] is not None else None
    return shape[1] if shape is not None and isinstance(shape[1], int) else 1


def _by_channel(graph: "ir.Graph", node: "ir.Node") -> "list[str] | str | None":
    """Replaces a convolution of single pixels and channels by a multiplication."""
    import onnx_ir as ir

    weights = _depth_wise(node)
    if weights is None or len(weights) != integer(node, "group", 1) or weights[0].size != 1 or pads(node):
        return None
    if "strides" in node.attributes and any(step != 1 for step in node.attributes["strides"].as_ints()):
        return None
    shape, stem, gone = (1, -1, *[1] * (weights.ndim - 2)), node.name or node.outputs[0].name, label(node)
    bias = constant(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else None
    if bias is None and len(node.inputs) > 2 and node.inputs[2] is not None:
        return "its bias is not constant"
    factor = new_weight(graph, f"{stem}_factor", weights.reshape(shape))
    last = ir.node("Mul", [node.inputs[0], factor], name=node.name)
    if bias is not None:
        graph.insert_before(node, last)
        last.outputs[0].shape, last.outputs[0].type = node.outputs[0].shape, node.outputs[0].type
        last = ir.node("Add", [last.outputs[0], new_weight(graph, f"{stem}_shift", bias.reshape(shape))])
    take_place(graph, node, last)
    return [gone]


def _twofold(graph: "ir.Graph", node: "ir.Node") -> "list[str] | str | None":
    """Replaces a depth-wise convolution with two results per channel, which is slow, by one with one result."""
    import onnx_ir as ir

    weights = _depth_wise(node)
    if weights is None or weights.ndim != 4 or len(weights) != 2 * integer(node, "group", 1):
        return None
    stem, gone = node.name or node.outputs[0].name, label(node)
    twice = new_weight(graph, f"{stem}_twice", np.repeat(np.arange(len(weights) // 2, dtype=np.int64), 2))
    both = ir.node("Gather", [node.inputs[0], twice], {"axis": 1})
    graph.insert_before(node, both)
    conv = ir.node("Conv", [both.outputs[0], *node.inputs[1:]], dict(node.attributes), name=node.name)
    conv.attributes["group"] = ir.AttrInt64("group", len(weights))
    take_place(graph, node, conv)
    return [gone]


def _depth_wise(node: "ir.Node") -> "np.ndarray[tuple[int, ...], np.dtype[np.generic]] | None":
    """Returns the weights of a convolution in which each channel is a group, else None."""
    weights = constant(node.inputs[1]) if is_op(node, "Conv") and integer(node, "group", 1) > 1 else None
    return weights if weights is not None and weights.shape[1] == 1 and weights.dtype.name in FLOATS else None


def _is_float(value: "ir.Value | None") -> bool:
    return value is not None and value.dtype is not None and value.dtype.name in {"FLOAT", "FLOAT16", "DOUBLE"}


def _is_attribute(number: float) -> bool:
    """Whether a number is exact as a float32 attribute; 0.1 in float64 is not."""
    return bool(np.isfinite(number)) and float(np.float32(number)) == number


def _keeps_rank(node: "ir.Node", place: int) -> bool:
    """Whether a constant of one element leaves the rank of the other input unchanged."""
    array, known = constant(node.inputs[place]), rank(node.inputs[1 - place])
    return array is not None and (array.ndim == 0 or (known is not None and array.ndim <= known))


def _spreads_over(shape: tuple[int, ...], value: "ir.Value | None") -> bool:
    """Whether slopes broadcast to the input's shape; larger slopes would enlarge the result."""
    dims = () if value is None or value.shape is None else tuple(value.shape)[-len(shape) :]
    return len(dims) == len(shape) and all(own in (1, dim) for own, dim in zip(shape, dims, strict=True))


FORMS = (
    OperatorForm("multiplied by the reciprocal instead of dividing by a constant", _divide),
    OperatorForm("replaced powers by square roots", _root),
    OperatorForm("wrote the larger of two as Relu or LeakyRelu", _larger, opset=14),
    OperatorForm("wrote PRelu with a single slope as LeakyRelu", _one_slope),
    OperatorForm("merged two limits into one Clip", _smaller, opset=11),
    OperatorForm("shuffled channels by one Gather", _shuffle),
    OperatorForm("replaced a 1x1 depthwise convolution by a multiplication", _by_channel),
    OperatorForm("doubled the channels before a depthwise convolution", _twofold),
)

PASS = Pass(
    "operator-forms",
    "operators take the form that runtimes compute fastest",
    apply,
    tolerance_db=100.0,
    finite_only=True,  # Pow(x, 0.5) is infinity at -infinity and +0 at -0; Relu may drop a NaN
)
