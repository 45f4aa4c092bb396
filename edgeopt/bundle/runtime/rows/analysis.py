"""Decides by the graph of a model whether the rows of a batch are independent of each other.

Each tensor is followed from the inputs: on which axis the rows lie, or that it is the same for all rows. An
operator that works along that axis mixes rows, with few exceptions; one without a rule here leaves it open.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edgeopt.bundle.runtime.rows import rules, shaping
from edgeopt.bundle.runtime.rows.values import (
    ONE,
    ROW_COUNT,
    UNKNOWN,
    GraphNode,
    ModelGraph,
    OperatorCall,
    RowSize,
    RowTensor,
    Shape,
    UndecidedError,
    constant,
    dims_of,
    mixes,
    read_graph,
    row_size,
    size,
    unclear,
    unknown_size,
)

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
    ("Shape", shaping.shape_of, (0,)),
    ("Size", shaping.size_of, (0,)),
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
_DOMAINS = ("", "com.microsoft")
_Known = Mapping[str, RowTensor | None]


@dataclass(frozen=True, slots=True)
class RowAnalysis:
    rows: Literal["independent", "mixed", "unknown"]
    sentence: str = ""
    """The operator that mixes rows or that no rule decides, with its name, and what it does."""


def analyze_rows(path: Path) -> RowAnalysis:
    """Analyzes the rows of an ONNX file; the result for any other file is "unknown"."""
    if path.suffix != ".onnx":
        return RowAnalysis("unknown", f"'{path.name}' has no graph that could be followed")
    try:
        return _analyzed(read_graph(path))
    except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        return RowAnalysis("unknown", f"the graph of '{path.name}' cannot be read ({error})")


def _analyzed(graph: ModelGraph) -> RowAnalysis:
    walk = _Walk(graph.opsets.get("", 1))
    inputs = {name: _input(shape) for name, shape in graph.inputs.items() if name not in graph.constants}
    found = walk.graph(graph, inputs, {})
    for rows in ("mixed", "unknown"):
        for note in walk.notes:
            if note.rows == rows:
                return note
    for name, tensor in zip(graph.outputs, found, strict=True):
        if tensor is None:
            return RowAnalysis("unknown", f"the output '{name}' cannot be followed")
        if tensor.numbering:
            return RowAnalysis("mixed", f"the output '{name}' holds the places of the samples in the batch")
        if tensor.axis != 0 or tensor.dims is None or tensor.dims[0] != ROW_COUNT:
            return RowAnalysis("mixed", f"the first axis of the output '{name}' is not that of the samples")
    return RowAnalysis("independent")


def _input(shape: Shape | None) -> RowTensor:
    """Returns an input with the rows on its first axis; a named size of another axis is the same for all rows."""
    if not shape:
        return RowTensor(0, None) if shape is None else RowTensor(None, ())
    rest = (RowSize(ONE.number, (each,)) if isinstance(each, str) else size(each or 0) for each in shape[1:])
    return RowTensor(0, (ROW_COUNT, *(each if each.number > 0 else unknown_size() for each in rest)))


class _Walk:
    """One analysis of a model. A tensor that no rule decides is None, and so is all that is computed from it."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.notes: list[RowAnalysis] = []

    def graph(self, graph: ModelGraph, inputs: Mapping[str, RowTensor], outer: _Known) -> list[RowTensor | None]:
        """The outputs, from the inputs; `outer` is what its nodes see of the graphs around it."""
        known = {**outer, **{name: constant(each) for name, each in graph.constants.items()}, **inputs}
        for node in _needed(graph):
            known |= zip(node.outputs, self._outputs(node, known), strict=False)
        return [known.get(name) for name in graph.outputs]

    def _outputs(self, node: GraphNode, known: _Known) -> Sequence[RowTensor | None]:
        inputs = tuple(known.get(name) if name else None for name in node.inputs)
        if any(name and each is None for name, each in zip(node.inputs, inputs, strict=True)):
            return [None] * len(node.outputs)
        nested = {"If": self._branches, "Loop": self._loop, "Scan": self._scan}.get(node.operator)
        try:
            if nested is not None and node.domain == "":
                return nested(OperatorCall(node, inputs, (), self.opset), known)
            return _followed(node, inputs, self.opset)
        except UndecidedError as error:
            where = f"{node.operator} '{node.name}'" if node.name else f"{node.operator} (of '{node.outputs[0]}')"
            self.notes.append(RowAnalysis(error.rows, f"{where}: {error}"))
            return [None] * len(node.outputs)

    def _branches(self, call: OperatorCall, known: _Known) -> Sequence[RowTensor | None]:
        if call.x.axis is not None:
            mixes("its condition depends on the rows")
        if call.x.counts_rows:
            unclear("its condition depends on the number of rows")
        found = [self.graph(call.graph(name), {}, known) for name in ("then_branch", "else_branch")]
        return [_either(one, other) for one, other in zip(*found, strict=True)]

    def _loop(self, call: OperatorCall, _: _Known) -> Sequence[RowTensor | None]:
        count = call.get(0)
        if count is not None and (count.axis is not None or count.counts_rows):
            mixes("its count depends on the rows")
        return unclear("its body is not followed")

    def _scan(self, call: OperatorCall, known: _Known) -> Sequence[RowTensor | None]:
        body, states = call.graph("body"), len(call.inputs) - call.integer("num_scan_inputs", 0)
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
        found = self.graph(body, dict(zip(body.inputs, [*carried, *pieces], strict=True)), known)
        after = [_shape_only(each) if each is not None else unclear("its body is not followed") for each in found]
        if after[:states] != carried:
            unclear("what it carries changes its form")
        return [*carried, *(_stacked(each) for each in after[states:])]


def _followed(node: GraphNode, inputs: tuple[RowTensor | None, ...], opset: int) -> Sequence[RowTensor]:
    """Returns the outputs by the operator's rule, after the checks that all operators share."""
    present = [each for each in inputs if each is not None]
    rows, counts = any(each.axis is not None for each in present), any(each.counts_rows for each in present)
    if node.domain not in _DOMAINS or node.operator not in _RULE_OF:
        unclear("this operator is not followed")
    rule, places = _RULE_OF[node.operator]
    for place, each in enumerate(inputs):
        if each is not None and place not in places and (each.axis is not None or each.counts_rows):
            mixes("its parameters are computed from the rows or their number")
    if counts and node.operator not in _COUNTING:
        unclear("it computes with the number of rows")
    if any(each.numbering for each in present) and node.operator not in _OF_NUMBERS:
        unclear("it computes with the numbers of rows")
    tensors = tuple(inputs[place] for place in places if place < len(inputs))
    followed = tuple(each for each in tensors if each is not None)
    if any(each.dims is None for each in followed):
        if rows or counts:
            unclear("the rank of an input is unknown")
        return [UNKNOWN] * len(node.outputs)
    found = rule(OperatorCall(node, inputs, followed, opset))
    return found if isinstance(found, list) else [found]


def _needed(graph: ModelGraph) -> list[GraphNode]:
    """The nodes that the outputs are computed from."""
    used, needed = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if used.intersection(node.outputs):
            needed.append(node)
            used |= _names_in(node)
    return needed[::-1]


def _names_in(node: GraphNode) -> set[str]:
    """Returns the names of a node's inputs and of all that its inner graphs use, which see outer tensors."""
    held = [each for each in node.attributes.values() if isinstance(each, ModelGraph)]
    inner = [_names_in(each) for graph in held for each in graph.nodes]
    return set(node.inputs).union(*inner, *(graph.outputs for graph in held))


def _shape_only(tensor: RowTensor) -> RowTensor:
    """Returns an input or output of an inner graph without its values; rejects one that counts rows."""
    if tensor.counts_rows or tensor.numbering:
        unclear("its body computes with the number of rows")
    return RowTensor(tensor.axis, tensor.dims)


def _either(one: RowTensor | None, other: RowTensor | None) -> RowTensor | None:
    """Returns the properties that both tensors share, or None if they share none."""
    if one is None or other is None or one.axis != other.axis:
        return None
    first, second = _shape_only(one), _shape_only(other)
    if first.dims is None or second.dims is None or len(first.dims) != len(second.dims):
        return None if one.axis is not None else UNKNOWN
    if one.axis is not None and row_size(one) != row_size(other):
        return None
    dims = (a if a == b else unknown_size() for a, b in zip(first.dims, second.dims, strict=True))
    return RowTensor(one.axis, tuple(dims))


def _stacked(tensor: RowTensor) -> RowTensor:
    """Returns the tensors of all turns of a loop, stacked along a new first axis."""
    return RowTensor(None if tensor.axis is None else tensor.axis + 1, (unknown_size(), *dims_of(tensor)))
