"""Cost of every node of a model, including nodes in branches, loops and functions."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from edgeopt.graph.analysis.categories import OperatorType, operator_type
from edgeopt.graph.analysis.cost import Call, Unknown, cost_of
from edgeopt.graph.analysis.records import Cost
from edgeopt.graph.analysis.tensors import Operands
from edgeopt.graph.nodes import subgraphs
from edgeopt.graph.shapes.infer import infer_shapes
from edgeopt.graph.shapes.propagate import propagate

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir
    from numpy.typing import NDArray


def called(
    model: "ir.Model", node: "ir.Node", operands: Operands
) -> "tuple[ir.Model, dict[ir.Value, NDArray[np.generic]]]":
    """Returns the body of a called function as a model, and those of its values that are the same in every run."""
    import onnx_ir as ir

    function = model.functions[node.op_identifier()]
    body = function.clone().graph
    attributes = {**function.attributes, **node.attributes}
    for part in (body, *body.subgraphs()):
        for inner in part:
            for name, attribute in tuple(inner.attributes.items()):
                if attribute.is_ref():
                    _resolve(inner, name, attributes.get(attribute.ref_attr_name))
    for value, passed in zip(body.inputs, node.inputs, strict=False):
        if passed is None:
            continue
        shape = operands.of(passed).shape
        value.type = passed.type
        value.shape = None if shape is None else ir.Shape(shape)
        constant = None if passed.is_graph_input() else passed.const_value
        if constant is not None and constant.size <= 16:
            value.const_value = constant
    # Without outputs, which would need a type, the body is a complete model for inference.
    body.outputs.clear()
    body.opset_imports.update(function.opset_imports)
    found = ir.Model(body, ir_version=model.ir_version, functions=tuple(model.functions.values()))
    infer_shapes(found)
    return found, propagate(found).values


def _resolve(node: "ir.Node", name: str, value: "ir.Attr | None") -> None:
    import onnx_ir as ir

    del node.attributes[name]
    if value is not None and not value.is_ref() and value.value is not None:
        node.attributes[name] = ir.Attr(name, value.type, value.value)


OPSET_OF_TODAYS_SCAN = 9


@dataclass(frozen=True, slots=True)
class Weight:
    cost: Cost
    """Cost of one run of the node, including the nodes that it contains."""
    runs: int
    """Number of runs in one run of the model."""
    category: OperatorType


@dataclass(slots=True)
class Weigher:
    model: "ir.Model"
    operands: Operands
    found: "dict[ir.Node, Weight]" = field(default_factory=dict)
    _functions: dict[object, tuple[Cost, OperatorType]] = field(default_factory=dict)

    def graph(self, graph: "Iterable[ir.Node]", runs: int) -> Cost:
        return total(self.node(node, runs) for node in graph)

    def node(self, node: "ir.Node", runs: int) -> Cost:
        category = operator_type(node.op_type, node.domain)
        if node.op_identifier() in self.model.functions:
            cost, category = self._function(node)
        elif held := subgraphs(node):
            cost = self._holder(node, held, runs)
        else:
            cost = cost_of(self.operands.call(node))
        self.found[node] = Weight(cost, runs, category)
        return cost

    def _holder(self, node: "ir.Node", held: "tuple[tuple[str, ir.Graph], ...]", runs: int) -> Cost:
        if node.op_type == "If":
            return self._branches(node, [graph for _, graph in held], runs)
        call = self.operands.call(node)
        if is_loop(node):
            times = trips(node, call, self.model, self.operands)
            often = times if isinstance(times, int) else 1
            body = total(self.graph(graph, runs * often) for _, graph in held)
            cost = scaled(body, often)
            if isinstance(times, int):
                return cost
            return msgspec.structs.replace(cost, unknown=times, unknown_kind="", unknown_within=False)
        # Their element-wise work belongs to the operator and is reported with it.
        return total([cost_of(call), *(self.graph(graph, 0) for _, graph in held)])

    def _branches(self, node: "ir.Node", branches: "list[ir.Graph]", runs: int) -> Cost:
        """Returns the cost of the branch that a constant condition selects, else of the more expensive one.

        The other branches count as never run. A branch that does not fit the shapes has nodes of unknown cost; a
        branch without such nodes is preferred.
        """
        condition = self.operands.of(node.inputs[0]).values if node.inputs and node.inputs[0] is not None else None
        costs = [self.graph(graph, 0) for graph in branches]
        taken = max(range(len(costs)), key=lambda place: (not costs[place].unknown, *_rank(costs[place])))
        if condition:
            branch_name = "then_branch" if condition[0] else "else_branch"
            names = [name for name, _ in subgraphs(node)]
            taken = names.index(branch_name) if branch_name in names else taken
        return self.graph(branches[taken], runs)

    def _function(self, node: "ir.Node") -> tuple[Cost, OperatorType]:
        """Computes the cost and category of a function body with the shapes and attributes of this call."""
        call = self.operands.call(node)
        key = (
            node.op_identifier(),
            tuple(None if each is None else (each.shape, each.bits, each.values) for each in call.inputs),
            tuple(sorted((name, str(attribute)) for name, attribute in node.attributes.items())),
        )
        if key not in self._functions:
            body, values = called(self.model, node, self.operands)
            inner = Weigher(body, Operands({}, values))
            cost = inner.graph(body.graph, 1)
            dearest = max(inner.found.values(), key=lambda each: _rank(each.cost), default=None)
            self._functions[key] = cost, dearest.category if dearest is not None else OperatorType.UNKNOWN
        return self._functions[key]


def weigh(model: "ir.Model", operands: Operands) -> "dict[ir.Node, Weight]":
    """Computes the cost of every node of a model whose shapes are inferred."""
    weigher = Weigher(model, operands)
    weigher.graph(model.graph, 1)
    return weigher.found


def is_loop(node: "ir.Node") -> bool:
    return node.op_type in {"Loop", "Scan", "SequenceMap"}


def trips(node: "ir.Node", call: Call, model: "ir.Model", operands: Operands) -> int | str:
    """Returns the number of iterations of a loop, or the reason why it is unknown."""
    try:
        found = _scan_trips(call, model) if node.op_type == "Scan" else _loop_trips(node, call, operands)
    except (Unknown, IndexError):
        found = None
    return "the number of iterations is known only at run time; it counts once" if found is None else found


def _scan_trips(call: Call, model: "ir.Model") -> int | None:
    scanned = call.whole("num_scan_inputs", 1)
    first = len(call.inputs) - scanned
    if int(model.opset_imports.get("", OPSET_OF_TODAYS_SCAN)) < OPSET_OF_TODAYS_SCAN:
        return call.axis(first, 0) * call.axis(first, 1)  # a batch, and the sequence of each
    return call.axis(first, (call.wholes("scan_input_axes") or (0,))[0])


def _loop_trips(node: "ir.Node", call: Call, operands: Operands) -> int | None:
    if node.op_type != "Loop":
        return None
    carried = len(call.inputs) - 2
    for operand in call.outputs[carried:]:
        if operand is not None and operand.shape:
            return operand.shape[0]  # a collected output has a row for each iteration
    count = call.inputs[0]
    start = call.inputs[1]
    endless = start is None or start.values == (True,)
    if count is None or count.values is None or not endless or not _goes_on(node, operands):
        return None
    return max(0, int(count.values[0]))


def _goes_on(node: "ir.Node", operands: Operands) -> bool:
    """Whether the loop body leaves the condition unchanged or sets it to true."""
    body = node.attributes["body"].as_graph()
    condition = body.outputs[0]
    while (producer := condition.producer()) is not None and producer.op_type in {"Identity", "Cast"}:
        condition = producer.inputs[0]
    return condition is body.inputs[1] or operands.of(condition).values == (True,)


def total(costs: Iterable[Cost]) -> Cost:
    """Sums the known figures and keeps the reason of the first unknown one."""
    macs = operations = read = written = 0
    first = Cost()
    for cost in costs:
        macs += cost.macs or 0
        operations += cost.operations or 0
        read += cost.read_bytes or 0
        written += cost.written_bytes or 0
        if cost.unknown and not first.unknown:
            first = cost
    known = Cost(macs, operations, read, written)
    if not first.unknown:
        return known
    return msgspec.structs.replace(
        known,
        unknown=_within(first, first.unknown),
        unknown_kind=_within(first, first.unknown_kind),
        unknown_within=True,
    )


def _within(cost: Cost, reason: str) -> str:
    return f"within: {reason}" if reason and not cost.unknown_within else reason


def scaled(cost: Cost, times: int) -> Cost:
    return Cost(
        (cost.macs or 0) * times,
        (cost.operations or 0) * times,
        (cost.read_bytes or 0) * times,
        (cost.written_bytes or 0) * times,
        *((cost.unknown, cost.unknown_kind, cost.unknown_within) if times else ()),
    )


def _rank(cost: Cost) -> tuple[int, int]:
    return cost.operations or 0, (cost.read_bytes or 0) + (cost.written_bytes or 0)
