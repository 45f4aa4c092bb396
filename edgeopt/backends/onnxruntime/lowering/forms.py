"""Forms of operators that only ONNX Runtime computes faster.

    x ** 2                             =  x * x
    Clip(x + b, 0, c) * f              =  HardSigmoid(x, f, b f)     c f = 1; it goes into a convolution before
    Conv(x, w) in groups of 4 or 8     =  Conv(x, w') in groups of 16, with zeros between in w'

Measured by `benchmarks/operator_forms.py` with AVX-512, whose kernels take 16 channels at a time (version 1.31).
What is spelled out (a normalization) stays together, so this runs after the fusions.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, constant, is_op, label, plural
from edgeopt.graph.passes.knowledge.forms import OperatorForm, inner, rewrite, take_place
from edgeopt.graph.passes.knowledge.linear import FLOATS, integer, new_weight
from edgeopt.graph.passes.knowledge.matching import homes, near, operands, rank, scalar

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray

ONLY_HERE = ("onnxruntime",)
_BLOCK = 16
_NARROW = (4, 8)
_LARGEST_BYTES = 4 << 20


def apply_forms(model: "ir.Model", context: PassContext) -> PassResult:
    """Rewrites every operator into the form that is fastest in ONNX Runtime."""
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
    OperatorForm("squared by a product", _square, ONLY_HERE),
    OperatorForm("fused a hard sigmoid", _hard_sigmoid, ONLY_HERE),
    OperatorForm("convolved in groups of 16 channels", _narrow_groups, ONLY_HERE),
)

OPERATOR_FORMS = Pass("ort-forms", "operators in the form that ONNX Runtime computes fastest", apply_forms, 100.0)


OPSET = 13
ALIKE = ("Relu", "LeakyRelu", "Clip", "Sigmoid", "Tanh", "Elu", "HardSigmoid", "HardSwish", "Erf", "Softplus")
"""Element-wise operators with one input and one output; further inputs are scalars."""
TWO = ("Add", "Sub", "Mul", "Div", "PRelu", "Max", "Min")
POOLS = ("MaxPool", "AveragePool")
_ROW = 2
_BY_SIDE = ("kernel_shape", "strides", "dilations")


def apply_lines(model: "ir.Model", context: PassContext) -> PassResult:  # noqa: ARG001 - every pass has this signature
    """Rewrites convolutions over lines (audio, text, series) as convolutions over pictures of one row.

        Conv(x, w)  =  Squeeze(Conv(Unsqueeze(x), Unsqueeze(w)))        the new dimension stands before the last

    ONNX Runtime's kernels in blocks of channels (version 1.31) take pictures only: by
    `benchmarks/operator_forms.py` a convolution of each channel by itself is twice as fast there, a dense one 1.3
    times. What works element by element between two convolutions, and pools, are taken along, so that a chain has
    one Unsqueeze and one Squeeze and every activation stays behind its convolution.
    """
    import onnx_ir as ir

    model, notes, done = model.clone(), Notes(), list[str]()
    for part, opset in homes(model):
        if not isinstance(part, ir.Graph):
            continue  # a function can hold no weights
        lines = Lines(part)
        for node in list(part):
            if is_op(node, "Conv") and rank(node.inputs[1]) == 3:
                named, reason = label(node), _refusal(node, opset)
                if reason:
                    notes.refuse(reason, named)
                    continue
                lines.convolve(node)
                done.append(named)
            elif is_op(node, *POOLS):
                lines.pool(node)
            elif is_op(node, *ALIKE, *TWO):
                lines.take_along(node)
        lines.clear()
    if done:
        notes.did(f"ran {plural(len(done), 'convolution')} over lines as over pictures", *done)
    return notes.result(model)


def _refusal(conv: "ir.Node", opset: int) -> str | None:
    weights = constant(conv.inputs[1])
    if weights is None:
        return "its weights are not constant"
    if weights.dtype.name not in FLOATS:
        return "its weights are not floating-point numbers"
    return None if opset >= OPSET else f"Unsqueeze with axes as an input needs opset {OPSET}"


class Lines:
    """One graph, with the values that also exist as pictures of one row."""

    def __init__(self, graph: "ir.Graph") -> None:
        self.graph = graph
        self.rows: dict[ir.Value, ir.Value] = {}
        self.made: list[ir.Node] = []
        self.axes: ir.Value | None = None

    def convolve(self, node: "ir.Node") -> None:
        """Convolves the input as a picture, with an additional dimension of the weights."""
        value, weights = node.inputs[0], constant(node.inputs[1])
        assert value is not None  # noqa: S101 - a convolution has both
        assert weights is not None  # noqa: S101
        if value not in self.rows:
            self.rows[value] = self._insert(node, "Unsqueeze", value)
        flat = new_weight(self.graph, f"{node.name or node.outputs[0].name}_flat", weights[:, :, None])
        self._put(node, [self.rows[value], flat, *node.inputs[2:]])

    def pool(self, node: "ir.Node") -> None:
        row = self.rows.get(node.inputs[0]) if node.inputs[0] is not None else None
        if row is not None and len(node.outputs) == 1:
            self._put(node, [row])

    def take_along(self, node: "ir.Node") -> None:
        """Applies an element-wise operator to the row; constants get the additional dimension too."""
        own = node.inputs[: 1 if is_op(node, *ALIKE) else 2]
        rows = [self.rows.get(value) if value is not None else None for value in own]
        if not any(row is not None for row in rows):
            return
        for place, value in enumerate(own):
            array = constant(value) if rows[place] is None else None
            if rows[place] is None and (array is None or array.ndim > 3):
                return
            rows[place] = rows[place] if array is None else self._widened(value, array)
        self._put(node, [*rows, *node.inputs[len(own) :]])

    def clear(self) -> None:
        """Removes new nodes without readers."""
        for node in reversed(self.made):
            if not any(value.uses() or value.is_graph_output() for value in node.outputs):
                self.graph.remove(node, safe=True)

    def _insert(self, before: "ir.Node", kind: str, value: "ir.Value") -> "ir.Value":
        import onnx_ir as ir

        if self.axes is None:
            self.axes = new_weight(self.graph, "place_of_the_row", np.asarray([_ROW], np.int64))
        made = ir.node(kind, [value, self.axes])
        self.graph.insert_before(before, made)
        self.made.append(made)
        return made.outputs[0]

    def _put(self, node: "ir.Node", inputs: "list[ir.Value | None]") -> None:
        """Replaces a node by the same over rows, and a Squeeze for readers of lines."""
        import onnx_ir as ir

        attributes = dict(node.attributes)
        for name in _BY_SIDE:
            if name in attributes:
                attributes[name] = ir.AttrInt64s(name, [1, *attributes[name].as_ints()])
        if "pads" in attributes:
            begin, end = attributes["pads"].as_ints()
            attributes["pads"] = ir.AttrInt64s("pads", [0, begin, 0, end])
        over_row = ir.node(node.op_type, inputs, attributes, name=node.name)
        self.graph.insert_before(node, over_row)
        old, line = node.outputs[0], self._insert(node, "Squeeze", over_row.outputs[0])
        name, line.shape, line.type = old.name, old.shape, old.type
        old.replace_all_uses_with(line, replace_graph_outputs=True)
        self.graph.remove(node, safe=True)
        old.name, line.name = f"{name}__replaced", name
        self.rows[line] = over_row.outputs[0]

    def _widened(self, value: "ir.Value | None", array: "NDArray[Any]") -> "ir.Value | None":
        """Returns a constant that combines with rows; a vector applies to the last dimension anyway."""
        if value is None or array.ndim < 2:
            return value
        return new_weight(self.graph, f"{value.name}_row", np.expand_dims(array, -2))


LINES = Pass("ort-lines", "convolutions over lines run as over pictures", apply_lines, 100.0)
