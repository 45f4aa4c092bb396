"""Decides by the graph of a model whether the rows of a batch are independent of each other.

Each tensor is followed from the inputs: on which axis the rows lie, or that it is the same for all rows. An
operator that works along that axis mixes rows, with few exceptions; one without a rule here leaves it open.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.errors import EdgeoptError
from edgeopt.graph.model import load
from edgeopt.graph.nodes import inner_graphs, is_op
from edgeopt.graph.rows import rules, shaping
from edgeopt.graph.rows.record import RowAnalysis
from edgeopt.graph.rows.values import (
    ROW_COUNT,
    ROWS,
    UNKNOWN,
    OperatorCall,
    RowTensor,
    UndecidedError,
    dims_of,
    mixes,
    of_rows,
    product,
    row_size,
    unclear,
)
from edgeopt.graph.shapes.infer import forget_claims, infer_shapes
from edgeopt.graph.shapes.propagate import propagate
from edgeopt.graph.shapes.sizes import Elements, follow, shape_of, sizes_of

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir
    from numpy.typing import NDArray

Rule = Callable[[OperatorCall], RowTensor | list[RowTensor]]

_ELEMENTWISE = (
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor "
    "Cast CastLike Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual "
    "HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul "
    "Neg Not Or Pow PRelu Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt "
    "Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor BiasGelu FastGelu QuickGelu StringConcat RegexFullMatch"
)
_REDUCTIONS = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
    "ReduceSumSquare ArgMax ArgMin GlobalAveragePool GlobalMaxPool GlobalLpPool"
)
_ALONG = (
    "Softmax LogSoftmax Hardmax LpNormalization CumSum Trilu LayerNormalization "
    "RMSNormalization SimplifiedLayerNormalization"
)
_IMAGE = (
    "InstanceNormalization GroupNormalization LRN Conv ConvInteger ConvTranspose AveragePool "
    "MaxPool LpPool DepthToSpace SpaceToDepth"
)
_ALL = tuple(range(64))
_RULES: tuple[tuple[str, Rule, tuple[int, ...]], ...] = (
    (_ELEMENTWISE, rules.elementwise, _ALL),
    (_REDUCTIONS, rules.reduce, (0,)),
    (_ALONG, rules.along, (0,)),
    (_IMAGE, rules.image, (0,)),
    ("BatchNormalization", rules.batch_norm, (0,)),
    ("QuantizeLinear DequantizeLinear", rules.quantize, (0,)),
    ("Dropout", rules.dropout, (0,)),
    ("TopK Compress", rules.picked, (0,)),
    ("Resize Upsample", rules.resize, (0,)),
    ("MatMul MatMulInteger", rules.gemm, (0, 1)),
    ("MatMulNBits", rules.packed_matmul, (0,)),
    ("Gemm", rules.gemm, (0, 1, 2)),
    ("Einsum", rules.einsum, _ALL),
    ("LSTM GRU RNN", rules.recurrent, (0, 4, 5, 6)),
    ("Attention", rules.attention, _ALL),
    ("MultiHeadAttention", rules.batched, _ALL),
    ("SkipLayerNormalization SkipSimplifiedLayerNormalization", rules.skip_normalization, (0, 1)),
    ("GatherElements", rules.gather_elements, (0, 1)),
    ("GatherND", rules.gather_nd, (0, 1)),
    ("ScatterElements Scatter ScatterND", rules.scatter, (0, 1, 2)),
    ("OneHot", rules.one_hot, (0,)),
    ("DynamicQuantizeLinear DynamicQuantizeLSTM NonZero Unique NonMaxSuppression EyeLike", rules.collective, _ALL),
    ("Constant", shaping.constant_node, ()),
    ("ConstantOfShape", shaping.constant_of_shape, (0,)),
    ("Expand", shaping.expand, (0, 1)),
    ("Range", shaping.range_of, (0, 1, 2)),
    ("Reshape", shaping.reshape, (0, 1)),
    ("Flatten", shaping.flatten, (0,)),
    ("Transpose", shaping.transpose, (0,)),
    ("Squeeze", shaping.squeeze, (0,)),
    ("Unsqueeze", shaping.unsqueeze, (0,)),
    ("Concat", shaping.concat, _ALL),
    ("Split", shaping.split, (0,)),
    ("Slice", shaping.sliced, (0,)),
    ("Pad", shaping.pad, (0,)),
    ("Gather", shaping.gather, (0, 1)),
)
"""The rule of each operator, and the places of the inputs that may have rows; parameters are at the others."""
_RULE_OF = {operator: (rule, places) for operators, rule, places in _RULES for operator in operators.split()}
_COUNTING = (
    "Shape Size ConstantOfShape Expand Range Reshape Transpose Squeeze Unsqueeze Concat Slice Gather "
    f"{_ELEMENTWISE}"
).split()
"""Followed where the number of rows is among their inputs."""
_OF_NUMBERS = ("Unsqueeze", "Expand", "Shape", "Concat", "GatherND", *_ELEMENTWISE.split())
"""Followed where the place of each row in the batch is among their inputs."""
_DOMAINS = ("", "ai.onnx", "com.microsoft")
_Known = Mapping["ir.Value", RowTensor | None]


def analyze_rows(path: Path) -> RowAnalysis:
    """Analyzes the rows of an ONNX file; the result for any other file is "unknown"."""
    if path.suffix != ".onnx":
        return RowAnalysis("unknown", f"'{path.name}' has no graph that could be followed")
    try:
        return _analyzed(load(path).ir)
    except (EdgeoptError, OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        return RowAnalysis("unknown", f"the graph of '{path.name}' cannot be read ({error})")


def _analyzed(model: "ir.Model") -> RowAnalysis:
    outputs = tuple(model.graph.outputs)
    walk = _Walk(model.opset_imports.get("", 1), _inferred(model))
    found = walk.graph(model.graph, outputs, {value: _input(value) for value in model.graph.inputs})
    for rows in ("mixed", "unknown"):
        for note in walk.notes:
            if note.rows == rows:
                return note
    for value, tensor in zip(outputs, found, strict=True):
        if tensor is None:
            return RowAnalysis("unknown", f"the output '{value.name}' cannot be followed")
        if tensor.numbering:
            return RowAnalysis("mixed", f"the output '{value.name}' holds the places of the samples in the batch")
        if tensor.axis != 0 or tensor.dims is None or tensor.dims[0] != ROW_COUNT:
            return RowAnalysis("mixed", f"the first axis of the output '{value.name}' is not that of the samples")
    return RowAnalysis("independent")


def _inferred(model: "ir.Model") -> "Mapping[ir.Value, NDArray[np.generic]]":
    """Names the rows of all inputs, infers all shapes from them, and returns the small values that are known."""
    import onnx_ir as ir

    graph = model.graph
    for value in [value for value in graph.inputs if value.is_initializer()]:
        graph.inputs.remove(value)
    for value in graph.inputs:
        if value.shape is not None and len(value.shape):
            value.shape = ir.Shape([ROWS, *list(value.shape)[1:]])
    forget_claims(model)
    graph.outputs.clear()  # inference keeps what is declared of outputs
    for value in (output for node in graph for output in node.outputs):
        value.shape = None
    infer_shapes(model)
    return propagate(model).values


def _input(value: "ir.Value") -> RowTensor:
    return RowTensor(None if value.shape is not None and not len(value.shape) else 0, shape_of(value))


class _Walk:
    """One analysis of a model. A tensor that no rule decides is None, and so is all that is computed from it."""

    def __init__(self, opset: int, arrays: "Mapping[ir.Value, NDArray[np.generic]]") -> None:
        self.opset = opset
        self.arrays = arrays
        self.sizes: dict[ir.Value, Elements] = {}
        self.notes: list[RowAnalysis] = []

    def graph(
        self, graph: "ir.Graph", outputs: "Sequence[ir.Value]", known: "Mapping[ir.Value, RowTensor | None]"
    ) -> list[RowTensor | None]:
        """Returns the outputs from what is known of the inputs and of the graphs around it."""
        known = dict(known)
        for node in _needed(graph, outputs):
            known |= zip(node.outputs, self._outputs(node, known), strict=False)
        return [self._tensor(value, known) for value in outputs]

    def _tensor(self, value: "ir.Value", known: _Known) -> RowTensor | None:
        """Returns what is known of a value; a weight is the same for all rows."""
        if value in known or value.const_value is None:
            return known.get(value)
        sizes_of(value, self.sizes)
        return RowTensor(None, tuple(int(each) for each in value.const_value.shape.numpy()))

    def _outputs(self, node: "ir.Node", known: _Known) -> Sequence[RowTensor | None]:
        inputs = tuple(None if value is None else self._tensor(value, known) for value in node.inputs)
        if any(value is not None and each is None for value, each in zip(node.inputs, inputs, strict=True)):
            return [None] * len(node.outputs)
        nested = {"If": self._branches, "Loop": self._loop, "Scan": self._scan}.get(node.op_type)
        try:
            if nested is not None and is_op(node, node.op_type):
                return nested(self._call(node, inputs, ()), known)
            counted = self._counted(node, inputs)
            return self._followed(node, inputs) if counted is None else [counted]
        except UndecidedError as error:
            where = (
                f"{node.op_type} '{node.name}'" if node.name else f"{node.op_type} (of '{node.outputs[0].name}')"
            )
            self.notes.append(RowAnalysis(error.rows, f"{where}: {error}"))
            return [None] * len(node.outputs)

    def _call(
        self, node: "ir.Node", inputs: tuple[RowTensor | None, ...], tensors: tuple[RowTensor, ...]
    ) -> OperatorCall:
        return OperatorCall(node, inputs, tensors, self.opset, self.sizes, self.arrays)

    def _counted(self, node: "ir.Node", inputs: tuple[RowTensor | None, ...]) -> RowTensor | None:
        """Returns a result that shapes are computed with; None if it is no such value, or not known."""
        result = node.outputs[0]
        if is_op(node, "Shape", "Size") and inputs[0] is not None:
            dims = dims_of(inputs[0])
            if is_op(node, "Size"):
                found: Elements | None = Elements((product(dims),), scalar=True)
            else:
                call = self._call(node, inputs, ())
                found = Elements(dims[slice(call.integer("start", 0), call.integer("end", len(dims)))])
        elif any(each is not None and each.axis is not None for each in inputs):
            return None
        else:
            found = follow(node, self.sizes) or sizes_of(result, self.sizes) or _elements(self.arrays.get(result))
        if found is None:
            return None
        self.sizes[result] = found
        counts = any(map(of_rows, found.elements)) or (
            None in found.elements and any(each is not None and each.counts_rows for each in inputs)
        )
        return RowTensor(None, () if found.scalar else (len(found.elements),), counts)

    def _branches(self, call: OperatorCall, known: _Known) -> Sequence[RowTensor | None]:
        if call.x.axis is not None:
            mixes("its condition depends on the rows")
        if call.x.counts_rows:
            unclear("its condition depends on the number of rows")
        held = [call.node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
        found = [self.graph(branch, branch.outputs, known) for branch in held]
        return [_either(call, place, one, other) for place, (one, other) in enumerate(zip(*found, strict=True))]

    def _loop(self, call: OperatorCall, _: _Known) -> Sequence[RowTensor | None]:
        count = call.get(0)
        if count is not None and (count.axis is not None or count.counts_rows):
            mixes("its count depends on the rows")
        return unclear("its body is not followed")

    def _scan(self, call: OperatorCall, known: _Known) -> Sequence[RowTensor | None]:
        body, states = (
            call.node.attributes["body"].as_graph(),
            len(call.inputs) - call.integer("num_scan_inputs", 0),
        )
        inputs = [_shape_only(call.need(place)) for place in range(len(call.inputs))]
        carried, scanned = inputs[:states], inputs[states:]
        pieces = []
        for each, axis in zip(scanned, call.integers("scan_input_axes") or (0,) * len(scanned), strict=True):
            dims = dims_of(each)
            place = axis % len(dims)
            if each.axis == place:
                mixes("it goes through the rows one after the other")
            moved = None if each.axis is None else each.axis - (each.axis > place)
            pieces.append(RowTensor(moved, dims[:place] + dims[place + 1 :]))
        if any(call.integers("scan_output_axes") or ()):
            unclear("its outputs are stacked on another axis than the first")
        found = self.graph(
            body, body.outputs, {**known, **dict(zip(body.inputs, [*carried, *pieces], strict=True))}
        )
        after = [_shape_only(each) if each is not None else unclear("its body is not followed") for each in found]
        if list(map(_form, after[:states])) != list(map(_form, carried)):
            unclear("what it carries changes its form")
        return [*carried, *(_stacked(call, place, each) for place, each in enumerate(after) if place >= states)]

    def _followed(self, node: "ir.Node", inputs: tuple[RowTensor | None, ...]) -> Sequence[RowTensor]:
        """Returns the outputs by the operator's rule, after the checks that all operators share."""
        present = [each for each in inputs if each is not None]
        rows, counts = any(each.axis is not None for each in present), any(each.counts_rows for each in present)
        if node.domain not in _DOMAINS or node.op_type not in _RULE_OF:
            unclear("this operator is not followed")
        rule, places = _RULE_OF[node.op_type]
        for place, each in enumerate(inputs):
            if each is not None and place not in places and (each.axis is not None or each.counts_rows):
                mixes("its parameters are computed from the rows or their number")
        if counts and node.op_type not in _COUNTING:
            unclear("it computes with the number of rows")
        if any(each.numbering for each in present) and node.op_type not in _OF_NUMBERS:
            unclear("it computes with the numbers of rows")
        tensors = tuple(inputs[place] for place in places if place < len(inputs))
        followed = tuple(each for each in tensors if each is not None)
        if any(each.dims is None for each in followed):
            if rows or counts:
                unclear("the rank of an input is unknown")
            return [UNKNOWN] * len(node.outputs)
        found = rule(self._call(node, inputs, followed))
        return found if isinstance(found, list) else [found]


def _elements(array: "NDArray[np.generic] | None") -> Elements | None:
    if array is None or array.ndim > 1 or array.dtype.kind not in "bi":
        return None
    return Elements(tuple(int(each) for each in array.reshape(-1)), array.ndim == 0)


def _needed(graph: "ir.Graph", outputs: "Sequence[ir.Value]") -> "list[ir.Node]":
    """The nodes that the outputs are computed from."""
    used: set[ir.Value | None] = set(outputs)
    needed = []
    for node in reversed(graph):
        if used.intersection(node.outputs):
            needed.append(node)
            used |= _read_by(node)
    return needed[::-1]


def _read_by(node: "ir.Node") -> "set[ir.Value | None]":
    """Returns a node's inputs and all that its inner graphs use, which see outer tensors."""
    held = list(inner_graphs(node))
    read = [_read_by(each) for graph in held for each in graph]
    return set(node.inputs).union(*read, *(graph.outputs for graph in held))


def _shape_only(tensor: RowTensor) -> RowTensor:
    """Returns an input or output of an inner graph without its values; rejects one that counts rows."""
    if tensor.counts_rows or tensor.numbering:
        unclear("its body computes with the number of rows")
    return RowTensor(tensor.axis, tensor.dims)


def _form(tensor: RowTensor) -> object:
    return tensor.axis, len(dims_of(tensor)), None if tensor.axis is None else row_size(tensor)


def _either(call: OperatorCall, place: int, one: RowTensor | None, other: RowTensor | None) -> RowTensor | None:
    """Returns the properties that both results share, or None if they share none."""
    if one is None or other is None or one.axis != other.axis:
        return None
    first, second = _shape_only(one), _shape_only(other)
    if first.dims is None or second.dims is None or len(first.dims) != len(second.dims):
        return None if one.axis is not None else UNKNOWN
    if one.axis is not None and row_size(one) != row_size(other):
        return None
    return call.result(one.axis, None if one.axis is None else row_size(one), place)


def _stacked(call: OperatorCall, place: int, tensor: RowTensor) -> RowTensor:
    """Returns the tensors of all turns of a loop, stacked along a new first axis."""
    if tensor.axis is None:
        return call.result(None, place=place)
    return call.result(tensor.axis + 1, row_size(tensor), place)
