"""Decides by the graph of a model whether the rows of a batch are independent of each other.

Each tensor is followed from the inputs: on which axis the rows lie, or that it is the same for all rows. An
operator that works along that axis mixes rows, with few exceptions; one without a rule here leaves it open.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edgeopt.bundle.runtime.rows import elements, layers, shaping
from edgeopt.bundle.runtime.rows.values import (
    ONE,
    ROW_COUNT,
    UNKNOWN,
    ConstantTensor,
    GraphNode,
    ModelGraph,
    OperatorCall,
    RowTensor,
    Size,
    UndecidedError,
    constant,
    mixes,
    read_graph,
    size,
    unclear,
    unknown_size,
)

Rule = Callable[[OperatorCall], RowTensor | list[RowTensor]]

_REDUCTIONS = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
    "ReduceSumSquare"
)
_RANDOM = "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial Bernoulli"
_RULES: tuple[tuple[str, Rule], ...] = (
    ("Shape", shaping.shape_of),
    ("Size", shaping.size_of),
    ("Constant", shaping.constant_node),
    ("ConstantOfShape", shaping.constant_of_shape),
    ("Expand", shaping.expand),
    ("Range", shaping.range_of),
    ("EyeLike", shaping.eye_like),
    ("Reshape", shaping.reshape),
    ("Flatten", shaping.flatten),
    ("Transpose", shaping.transpose),
    ("Squeeze", shaping.squeeze),
    ("Unsqueeze", shaping.unsqueeze),
    ("Concat", shaping.concat),
    ("Split", shaping.split),
    ("Slice", shaping.sliced),
    ("Tile", shaping.tile),
    ("Pad", shaping.pad),
    ("Gather", shaping.gather),
    ("QuantizeLinear DequantizeLinear", elements.quantize),
    ("Dropout", elements.dropout),
    ("Softmax LogSoftmax Hardmax", elements.softmax),
    ("LpNormalization", elements.lp_norm),
    ("CumSum CumProd", elements.cumulative_sum),
    (_REDUCTIONS, elements.reduce),
    ("ArgMax ArgMin", elements.arg_reduce),
    ("TopK", elements.top_k),
    ("LayerNormalization RMSNormalization SimplifiedLayerNormalization", elements.layer_norm),
    ("SkipLayerNormalization SkipSimplifiedLayerNormalization", elements.skip_layer_norm),
    ("BatchNormalization", layers.batch_norm),
    ("InstanceNormalization GroupNormalization LRN", layers.spatial),
    ("MeanVarianceNormalization", layers.mean_variance),
    ("Resize Upsample", layers.resize),
    (
        "DepthToSpace SpaceToDepth ConvTranspose NhwcConv NhwcFusedConv NhwcMaxPool QLinearAveragePool",
        layers.resized,
    ),
    ("Conv ConvInteger QLinearConv FusedConv", layers.conv),
    ("AveragePool MaxPool LpPool", layers.pool),
    ("GlobalAveragePool GlobalMaxPool GlobalLpPool", layers.global_pool),
    ("MatMul MatMulInteger QLinearMatMul MatMulIntegerToFloat FusedMatMul", layers.matmul),
    ("MatMulNBits MatMulBnb4", layers.weight_only),
    ("Gemm FusedGemm QGemm", layers.gemm),
    ("Einsum", layers.einsum),
    ("LSTM GRU RNN", layers.recurrent),
    ("GatherElements", elements.gather_elements),
    ("GatherND", elements.gather_nd),
    ("ScatterElements Scatter", elements.scatter_elements),
    ("ScatterND", elements.scatter_nd),
    ("Trilu", elements.trilu),
    ("OneHot", elements.one_hot),
    ("ReverseSequence", elements.reverse_sequence),
    ("Attention", layers.attention),
    ("MultiHeadAttention", layers.batched),
    ("DynamicQuantizeLinear DynamicQuantizeMatMul DynamicQuantizeLSTM QAttention", elements.quantized_dynamically),
    ("NonZero Unique Compress NonMaxSuppression", elements.searching),
    (_RANDOM, elements.random),
    (elements.ELEMENTWISE, elements.elementwise),
    (" ".join(elements.QUANTIZED_ELEMENTWISE), elements.quantized_elementwise),
)
_RULE_OF = {operator: rule for operators, rule in _RULES for operator in operators.split()}
_OF_NUMBERS = ("Unsqueeze", "Expand", "Shape", "Concat", "GatherND")
"""Followed where the place of each row in the batch is among their inputs."""
_DOMAINS = ("", "com.microsoft", "com.ms.internal.nhwc")
_MOST_PASSES = 4
"""Over the body of a loop, until what it carries is the same before and after."""


@dataclass(frozen=True, slots=True)
class RowAnalysis:
    rows: Literal["independent", "mixed", "unknown"]
    where: str = ""
    """The operator that mixes rows or that no rule decides, with its name."""
    reason: str = ""

    @property
    def sentence(self) -> str:
        return f"{self.where}: {self.reason}" if self.where else self.reason


def analyze_rows(path: Path) -> RowAnalysis:
    """Of an ONNX file; of any other there is nothing that could be followed."""
    if path.suffix != ".onnx":
        return RowAnalysis("unknown", "", f"'{path.name}' has no graph that could be followed")
    try:
        graph = read_graph(path)
    except (OSError, ValueError, LookupError, RecursionError) as error:
        return RowAnalysis("unknown", "", f"the graph of '{path.name}' cannot be read ({error})")
    return analyze_graph(graph)


def analyze_graph(graph: ModelGraph) -> RowAnalysis:
    walk = _Walk(graph)
    inputs = {
        name: RowTensor(0, _input_dims(shape)) if shape is None or shape else RowTensor(None, ())
        for name, shape in graph.inputs.items()
        if name not in graph.constants
    }
    found = walk.graph(graph, inputs, {})
    if walk.mixed is not None:
        return walk.mixed
    if walk.open is not None:
        return walk.open
    for name, tensor in zip(graph.outputs, found, strict=True):
        if tensor is None:
            return RowAnalysis("unknown", "", f"the output '{name}' cannot be followed")
        if tensor.numbering:
            return RowAnalysis("mixed", "", f"the output '{name}' holds the places of the samples in the batch")
        if tensor.axis != 0 or tensor.dims is None or tensor.dims[0] != ROW_COUNT:
            return RowAnalysis("mixed", "", f"the first axis of the output '{name}' is not that of the samples")
    return RowAnalysis("independent")


def _input_dims(shape: tuple[int | str | None, ...] | None) -> tuple[Size, ...] | None:
    """Of one sample; a size with the name of the batch's is that of a sample here."""
    if shape is None:
        return None
    return (ROW_COUNT, *(_sample_size(each) for each in shape[1:]))


def _sample_size(given: int | str | None) -> Size:
    if isinstance(given, int) and given > 0:
        return size(given)
    return Size(ONE.number, (given,)) if isinstance(given, str) else unknown_size()


class _Walk:
    """One analysis of a model. A tensor that no rule decides is None, and so is all that is computed from it."""

    def __init__(self, model: ModelGraph) -> None:
        self.opset = model.opsets.get("", 1)
        self.mixed: RowAnalysis | None = None
        self.open: RowAnalysis | None = None

    def graph(
        self, graph: ModelGraph, given: Mapping[str, RowTensor | None], outer: Mapping[str, RowTensor | None]
    ) -> list[RowTensor | None]:
        """The outputs, from the inputs; `outer` is what its nodes see of the graphs around it."""
        known: dict[str, RowTensor | None] = {**outer}
        known |= {name: constant(each) for name, each in graph.constants.items()}
        known |= given
        needed = _needed(graph)
        for number, node in enumerate(graph.nodes):
            if number not in needed:
                continue
            found = self._outputs(node, known, graph.constants)
            for name, each in zip(node.outputs, found, strict=False):
                if name:
                    known[name] = each
        return [known.get(name) for name in graph.outputs]

    def _outputs(
        self, node: GraphNode, known: Mapping[str, RowTensor | None], constants: dict[str, ConstantTensor]
    ) -> "list[RowTensor | None]":
        nothing: list[RowTensor | None] = [None] * len(node.outputs)
        if any(name and known.get(name) is None for name in node.inputs):
            return nothing
        inputs = tuple(known[name] if name else None for name in node.inputs)
        call = OperatorCall(node, inputs, self.opset, constants)
        try:
            if node.operator in ("If", "Loop", "Scan") and node.domain == "":
                return self._nested(call, known)
            rule = _RULE_OF.get(node.operator) if node.domain in _DOMAINS else None
            if rule is None or (node.operator == "Attention" and node.domain):
                if any(each.axis is not None or each.counts_rows for each in call.given):
                    unclear("this operator is not followed")
                return [UNKNOWN] * len(node.outputs)
            numbered = any(each.numbering for each in call.given)
            if numbered and rule is not elements.elementwise and node.operator not in _OF_NUMBERS:
                unclear("it computes with the numbers of rows")
            found = rule(call)
        except UndecidedError as error:
            self._note(node, error)
            return nothing
        return [*found] if isinstance(found, list) else [found]

    def _note(self, node: GraphNode, error: UndecidedError) -> None:
        where = f"{node.operator} '{node.name}'" if node.name else f"{node.operator} (of '{node.outputs[0]}')"
        if error.mixed:
            self.mixed = self.mixed or RowAnalysis("mixed", where, error.reason)
        else:
            self.open = self.open or RowAnalysis("unknown", where, error.reason)

    def _nested(self, call: OperatorCall, known: Mapping[str, RowTensor | None]) -> "list[RowTensor | None]":
        if call.node.operator == "If":
            return self._branches(call, known)
        return self._loop(call, known) if call.node.operator == "Loop" else self._scan(call, known)

    def _branches(self, call: OperatorCall, known: Mapping[str, RowTensor | None]) -> "list[RowTensor | None]":
        if call.x.axis is not None:
            mixes("its condition depends on the rows")
        if call.x.counts_rows:
            unclear("its condition depends on the number of rows")
        branches = [call.graph(name) for name in ("then_branch", "else_branch")]
        found = [self.graph(branch, {}, known) for branch in branches if branch is not None]
        return [_either(one, other) for one, other in zip(*found, strict=True)]

    def _loop(self, call: OperatorCall, known: Mapping[str, RowTensor | None]) -> "list[RowTensor | None]":
        body = call.graph("body")
        if body is None:
            unclear("it has no body")
        for place, what in ((0, "count"), (1, "condition")):
            each = call.get(place)
            if each is not None and (each.axis is not None or each.counts_rows):
                mixes(f"its {what} depends on the rows")
        names = tuple(body.inputs)
        carried = [_shapeless(each) for each in call.inputs[2:]]
        step = {names[0]: RowTensor(None, ()), names[1]: RowTensor(None, ())}
        for _ in range(_MOST_PASSES):
            found = self.graph(body, {**step, **dict(zip(names[2:], carried, strict=True))}, known)
            if found[0] is not None and found[0].axis is not None:
                mixes("its condition depends on the rows")
            after = [_either(one, other) for one, other in zip(carried, found[1:], strict=False)]
            if None in after:
                unclear("its body is not followed")
            if after == carried:
                return [*carried, *(_stacked(each) for each in found[1 + len(carried) :])]
            carried = after
        return unclear("what it carries changes its form")

    def _scan(self, call: OperatorCall, known: Mapping[str, RowTensor | None]) -> "list[RowTensor | None]":
        body, scanned = call.graph("body"), call.integer("num_scan_inputs", 0)
        if body is None:
            unclear("it has no body")
        states = len(call.inputs) - scanned
        where = call.integers("scan_input_axes") or (0,) * scanned
        pieces = []
        for each, axis in zip(call.inputs[states:], where, strict=True):
            if each is None or each.dims is None:
                unclear("the rank of an input is unknown")
            place = axis % len(each.dims)
            if each.axis == place:
                mixes("it goes through the rows one after the other")
            moved = None if each.axis is None else each.axis - (each.axis > place)
            pieces.append(RowTensor(moved, each.dims[:place] + each.dims[place + 1 :]))
        if any(call.integers("scan_output_axes") or ()):
            unclear("its outputs are stacked on another axis than the first")
        names = tuple(body.inputs)
        carried = [_shapeless(each) for each in call.inputs[:states]]
        for _ in range(_MOST_PASSES):
            found = self.graph(body, dict(zip(names, [*carried, *pieces], strict=True)), known)
            after = [_either(one, other) for one, other in zip(carried, found, strict=False)]
            if None in after:
                unclear("its body is not followed")
            if after == carried:
                return [*carried, *(_stacked(each) for each in found[states:])]
            carried = after
        return unclear("what it carries changes its form")


def _needed(graph: ModelGraph) -> set[int]:
    """The nodes that the outputs are computed from; those inside other graphs see all of this one."""
    wanted, needed = set(graph.outputs), set()
    for number in reversed(range(len(graph.nodes))):
        node = graph.nodes[number]
        if wanted.intersection(node.outputs):
            needed.add(number)
            wanted.update(node.inputs)
            for held in node.attributes.values():
                if isinstance(held, ModelGraph):
                    wanted.update(_names_in(held))
    return needed


def _names_in(graph: ModelGraph) -> set[str]:
    names = set(graph.outputs)
    for node in graph.nodes:
        names.update(node.inputs)
        for held in node.attributes.values():
            if isinstance(held, ModelGraph):
                names |= _names_in(held)
    return names


def _shapeless(tensor: RowTensor | None) -> RowTensor | None:
    """What a loop carries changes its values, so none of them is known."""
    if tensor is None:
        return None
    if tensor.counts_rows:
        unclear("it carries the number of rows")
    if tensor.numbering:
        unclear("it carries the numbers of rows")
    return RowTensor(tensor.axis, tensor.dims)


def _either(one: RowTensor | None, other: RowTensor | None) -> RowTensor | None:
    """What holds for both; None where nothing does."""
    if one is None or other is None or one.axis != other.axis:
        return None
    if one.counts_rows or other.counts_rows or one.numbering or other.numbering:
        unclear("its body computes with the number of rows")
    if one.dims is None or other.dims is None or len(one.dims) != len(other.dims):
        return None if one.axis is not None else UNKNOWN
    if one.axis is not None and one.dims[one.axis] != other.dims[one.axis]:
        return None
    dims = tuple(a if a == b else unknown_size() for a, b in zip(one.dims, other.dims, strict=True))
    return RowTensor(one.axis, one.dims if dims != one.dims and one.dims == other.dims else dims)


def _stacked(tensor: RowTensor | None) -> RowTensor | None:
    """Of each turn of a loop one, along a new first axis."""
    if tensor is None or tensor.dims is None:
        return tensor
    if tensor.numbering:
        unclear("its body computes with the number of rows")
    return RowTensor(None if tensor.axis is None else tensor.axis + 1, (unknown_size(), *tensor.dims))
