"""The flow of eight bits: tensors that are quantized between layers in eight bits, and their readers."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast

from edgeopt.graph.nodes import constant, is_op
from edgeopt.quant.layers import computed_inputs
from edgeopt.quant.records import Range
from edgeopt.quant.schemes.writer import Use, uses

if TYPE_CHECKING:
    import onnx_ir as ir

RangeOf = Callable[["ir.Value"], Range | None]


@dataclass(frozen=True, slots=True)
class Follower:
    """An operator that computes in eight bits between 8-bit products."""

    operator: str
    kind: Literal["exact", "own"]
    """`exact` operators keep the scale and zero point of their input; `own` ones have their own range."""
    places: tuple[int, ...] | None = (0,)
    """Positions of the 8-bit inputs; None: all."""


FOLLOWERS: dict[str, Follower] = {
    each.operator: each
    for each in (
        *(
            Follower(operator, "exact")
            for operator in (
                *("MaxPool", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten"),
                *("Slice", "Split", "Gather", "Resize"),
            )
        ),
        *(Follower(operator, "own") for operator in ("GlobalAveragePool", "AveragePool", "LeakyRelu", "Sigmoid")),
        *(Follower(operator, "own", None) for operator in ("Add", "Mul", "Concat")),
    )
}


# Additional operators for devices without floats, quantized if their ranges are known.
_OF_A_WHOLE_MODEL: dict[str, Follower] = {
    each.operator: each
    for each in (
        *(
            Follower(operator, "own")
            for operator in (
                *("Relu", "Clip", "Tanh", "Elu", "HardSigmoid", "HardSwish", "Gelu", "Softmax", "Exp", "Sqrt"),
                *("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "Pad", "DepthToSpace", "SpaceToDepth"),
            )
        ),
        *(Follower(operator, "own", None) for operator in ("Sub", "Div", "Max", "Min", "PRelu")),
    )
}


@dataclass(slots=True)
class Flow:
    ranges: "dict[ir.Value, Range]" = field(default_factory=dict)
    """Ranges of the values that get a pair of QuantizeLinear and DequantizeLinear."""
    readers: "dict[ir.Value, list[Use]]" = field(default_factory=dict)
    """Readers of the output of each pair; all others read the floats."""
    quantized: "set[ir.Value]" = field(default_factory=set)
    """Values that no node reads as floats; outputs of the model read the pair too."""
    folded: "dict[ir.Value, ir.Value]" = field(default_factory=dict)
    """Results of a Relu or Clip that rounding to the range replaces, with the inputs of the operators."""


def through(nodes: "Collection[ir.Node]", range_of: RangeOf, *, symmetric: bool, everywhere: bool = False) -> Flow:
    """Returns the flow into the products, out of the convolutions and through the operators between them.

    With `everywhere`, also out of all products and through all operators with known ranges, whatever consumes
    them.
    """
    graph = cast("ir.Graph", next(iter(nodes)).graph)
    ends = {end_of(node.outputs[0], symmetric) for node in nodes if gives_eight_bits(node)}
    if everywhere:
        others = {end_of(node.outputs[0], symmetric) for node in nodes}
        ends |= {value for value in others if range_of(value) is not None}
    read: dict[ir.Value, list[Use]] = {}
    for node in nodes:
        for place in computed_inputs(node):
            read.setdefault(node.inputs[place], []).append((node, place))
    between = _Between(ends, read, symmetric)
    accepted = between.all_of(graph, range_of) if everywhere else between.search(graph, range_of)
    for node, follower in accepted.items():
        for place in places_of(node, follower):
            read.setdefault(node.inputs[place], []).append((node, place))
    quantized = ends | {end_of(value, symmetric) for node in accepted for value in node.outputs}
    flow = Flow(quantized=quantized)
    # The order of the graph is the same each time, unlike that of a set, so the written file is too.
    ordered = [value for node in graph for value in node.outputs if value in quantized]
    for value in (*read, *ordered):
        kept = range_of(value)
        if kept is None:
            raise LookupError(f"The range of '{value.name}' was not calibrated; see `tensors_wanted`.")
        flow.ranges[value] = kept
        flow.readers[value] = uses(value) if value in quantized else read[value]
    _share(flow, accepted)
    for value in quantized:
        before = _before(value)
        # A shared range may be wider than the bounds of the Clip, which must then stay.
        cuts_off_as_much = bounded(value, flow.ranges[value]) == flow.ranges[value]
        if before is not None and cuts_off_as_much and value not in {each.outputs[0] for each in nodes}:
            flow.folded[value] = before
    return flow


def inputs_only(nodes: "Collection[ir.Node]", range_of: RangeOf) -> Flow:
    """Returns the flow into the products only; their results are float."""
    flow = Flow()
    for node in nodes:
        for place in computed_inputs(node):
            value = node.inputs[place]
            kept = range_of(value)
            if kept is None:
                raise LookupError(f"The range of '{value.name}' was not calibrated.")
            flow.ranges[value] = kept
            flow.readers.setdefault(value, []).append((node, place))
    return flow


def gives_eight_bits(node: "ir.Node") -> bool:
    """Whether ONNX Runtime's kernel for a product can only give 8-bit results; others can give floats too."""
    return is_op(node, "Conv")


def end_of(value: "ir.Value", symmetric: bool = False) -> "ir.Value":
    """Returns the result of the Relu or Clip behind a value if rounding replaces it, otherwise the value."""
    readers = list(value.uses())
    if symmetric or len(readers) != 1 or value.is_graph_output():
        return value
    node = readers[0].node
    if is_op(node, "Relu") or (is_op(node, "Clip") and readers[0].idx == 0 and _bounds(node) is not None):
        return node.outputs[0]
    return value


def _before(value: "ir.Value") -> "ir.Value | None":
    node = value.producer()
    return node.inputs[0] if node is not None and is_op(node, "Relu", "Clip") else None


def _bounds(node: "ir.Node") -> tuple[float, float] | None:
    """Returns the bounds of a Relu or Clip, or None if they are not constant or do not include zero."""
    if node.op_type == "Relu":
        return 0.0, float("inf")
    found = [float("-inf"), float("inf")]
    for place in (1, 2):
        value = node.inputs[place] if len(node.inputs) > place else None
        if value is None:
            continue
        array = constant(value)
        if array is None or array.size != 1:
            return None
        found[place - 1] = float(array.reshape(-1)[0])
    return (found[0], found[1]) if found[0] <= 0 <= found[1] else None


def bounded(value: "ir.Value", kept: Range) -> Range:
    """Returns the range limited to the bounds of the Relu or Clip that computes this value."""
    node = value.producer()
    bounds = _bounds(node) if node is not None and is_op(node, "Relu", "Clip") else None
    if bounds is None:
        return kept
    return Range(min(max(kept.low, bounds[0]), 0.0), max(min(kept.high, bounds[1]), 0.0))


def places_of(node: "ir.Node", follower: Follower) -> tuple[int, ...]:
    return tuple(range(len(node.inputs))) if follower.places is None else follower.places


def _fits(node: "ir.Node") -> bool:
    if is_op(node, "Resize"):
        mode = node.attributes.get("mode")
        return mode is None or mode.as_string() == "nearest"
    if is_op(node, "MaxPool"):
        return len(node.outputs) == 1
    return True


@dataclass(slots=True)
class _Between:
    """The search for operators between products that can compute in eight bits on all sides."""

    ends: "set[ir.Value]"
    read: "Mapping[ir.Value, list[Use]]"
    symmetric: bool
    accepted: "dict[ir.Node, Follower]" = field(default_factory=dict)

    def search(self, graph: "ir.Graph", range_of: RangeOf) -> "dict[ir.Node, Follower]":
        """Removes operators that would need a conversion until none does, and returns the remaining ones."""
        self._accept(graph, range_of, FOLLOWERS)
        layers = {use for readers in self.read.values() for use in readers}
        while True:
            quantized = {
                end_of(value, self.symmetric) for node in self.accepted for value in node.outputs
            } | self.ends
            wrong = [node for node in self.accepted if not self._pays(node, quantized, layers)]
            if not wrong:
                return self.accepted
            for node in wrong:
                del self.accepted[node]

    def all_of(self, graph: "ir.Graph", range_of: RangeOf) -> "dict[ir.Node, Follower]":
        """Returns the operators with known ranges on all sides."""
        self._accept(graph, range_of, {**_OF_A_WHOLE_MODEL, **FOLLOWERS})
        folded = {value.producer() for value in self.ends}
        return {
            node: follower
            for node, follower in self.accepted.items()
            if not (node in folded and is_op(node, "Relu", "Clip"))
            and all(range_of(node.inputs[place]) is not None for place in places_of(node, follower))
        }

    def _accept(self, graph: "ir.Graph", range_of: RangeOf, followers: "Mapping[str, Follower]") -> None:
        for node in graph:
            follower = followers.get(node.op_type) if is_op(node, node.op_type) else None
            if follower is None or not _fits(node):
                continue
            if all(range_of(end_of(value, self.symmetric)) is not None for value in node.outputs):
                self.accepted[node] = follower

    def _pays(self, node: "ir.Node", quantized: "set[ir.Value]", layers: "set[Use]") -> bool:
        follower = self.accepted[node]
        sources = [node.inputs[place] for place in places_of(node, follower)]
        if not all(value in quantized or value in self.read for value in sources):
            return False
        if follower.kind == "exact" and all(value in quantized for value in sources):
            return True
        ends = [end_of(value, self.symmetric) for value in node.outputs]
        return all(
            not end.is_graph_output()
            and bool(readers := uses(end))
            and all(use in layers or self._is_read_in_eight_bits(use) for use in readers)
            for end in ends
        )

    def _is_read_in_eight_bits(self, use: Use) -> bool:
        reader = self.accepted.get(use[0])
        return reader is not None and use[1] in places_of(use[0], reader)


def _share(flow: Flow, accepted: "Mapping[ir.Node, Follower]") -> None:
    """Gives the inputs and outputs of `exact` operators one common range."""
    groups: dict[ir.Value, list[ir.Value]] = {}
    for node, follower in accepted.items():
        if follower.kind != "exact":
            continue
        members = [value for value in (node.inputs[0], *node.outputs) if value in flow.ranges]
        joined = list(dict.fromkeys(each for value in members for each in groups.get(value, [value])))
        for value in joined:
            groups[value] = joined
    for group in groups.values():
        low = min(flow.ranges[value].low for value in group)
        high = max(flow.ranges[value].high for value in group)
        for value in group:
            flow.ranges[value] = Range(low, high)
