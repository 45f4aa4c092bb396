"""Matching of the nodes and values of two models, with the change of each node.

Nodes are matched by what they compute (operator, attributes, weights and all inputs), then by their names and the
names of their outputs, and last by their position beside matched nodes. Constants count as weights.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import msgspec

from edgeopt.graph.nodes import is_op, label

if TYPE_CHECKING:
    import onnx_ir as ir

HASHED_BYTES = 64 << 20
"""Size in bytes above which weights are compared by name, type and shape only."""
Status = Literal["changed", "fused into", "gone", "new"]


class NodeChange(msgspec.Struct, frozen=True):
    status: Status
    node: str
    """Label of the node in the first model, or in the second for a new node."""
    other: str = ""
    """Label of the node in the second model that replaces this one or absorbed it."""
    what: str = ""
    """Description of the difference."""


class GraphDiff(msgspec.Struct, frozen=True):
    """Changes of the nodes of the main graph; a node counts with its subgraphs."""

    kept: int
    changes: tuple[NodeChange, ...]

    def count(self, status: Status) -> int:
        return sum(change.status == status for change in self.changes)


@dataclass(slots=True)
class Matching:
    """Matched nodes of two models."""

    first: "DiffSide"
    second: "DiffSide"
    nodes: "dict[ir.Node, ir.Node]" = field(default_factory=dict)
    taken: "set[ir.Node]" = field(default_factory=set)

    def pair(self, a: "ir.Node", b: "ir.Node") -> None:
        self.nodes[a] = b
        self.taken.add(b)

    def free(self, a: "ir.Node | None", b: "ir.Node | None") -> bool:
        """Whether both nodes are unmatched and have the same operator."""
        if a is None or b is None or a in self.nodes or b in self.taken:
            return False
        return (a.domain, a.op_type) == (b.domain, b.op_type) and a in self.first.ids and b in self.second.ids


@dataclass(slots=True)
class DiffSide:
    """A main graph with an id for the computation of each node."""

    nodes: "list[ir.Node]"
    ids: "dict[ir.Node, str]"
    values: "dict[ir.Value, str]"
    attributes: "dict[ir.Node, dict[str, str]]"

    def of(self, value: "ir.Value | None") -> str:
        return self.values.get(value, "?") if value is not None else ""


def match(first: "ir.Model", second: "ir.Model") -> Matching:
    matching = Matching(_side(first), _side(second))
    _by_computation(matching)
    _by_name(matching, _node_name, same_operator=True)
    _by_name(matching, _output_name, same_operator=True)
    _by_place(matching)
    _by_name(matching, _output_name, same_operator=False)
    _by_place(matching)
    return matching


def diff(matching: Matching) -> GraphDiff:
    """Classifies the change of each node, in the order of the graphs."""
    changes: list[NodeChange] = []
    kept = 0
    rebuilt = _rebuilt(matching)
    different = _differences(matching, rebuilt)
    for node in matching.first.nodes:
        if node in different:
            changes.append(NodeChange("changed", label(node), label(matching.nodes[node]), different[node]))
        elif node in matching.nodes:
            kept += 1
        else:
            changes.append(_lost(node, matching, different, rebuilt))
    new = [node for node in matching.second.nodes if node not in matching.taken]
    return GraphDiff(kept, (*changes, *(NodeChange("new", label(node)) for node in new)))


def partners(matching: Matching) -> tuple[tuple[str, str], ...]:
    """Returns the labels of matched nodes, changed or not, in the order of the first model."""
    found = ((node, matching.nodes.get(node)) for node in matching.first.nodes)
    return tuple((label(node), label(other)) for node, other in found if other is not None)


def corresponding(matching: Matching) -> list[tuple[str, str]]:
    """Pairs the names of values that should be equal, in the order of the first model."""
    rebuilt = _rebuilt(matching)
    partner: dict[ir.Value, ir.Value] = {}
    source: dict[ir.Value, ir.Value] = {}
    for node in matching.first.nodes:
        other = matching.nodes.get(node)
        if other is None:
            host = _host_before(node, matching, rebuilt)
            # The previous node absorbed it: its result is now the result of both.
            other = host if host is not None and _reads_on(node, host, matching, further=False) else None
        if other is None or len(node.outputs) != len(other.outputs):
            continue
        for a, b in zip(node.outputs, other.outputs, strict=True):
            if b in source:
                partner.pop(source[b], None)
            partner[a], source[b] = b, a
    return [(a.name, b.name) for a, b in partner.items() if a.name and b.name]


def _side(model: "ir.Model") -> DiffSide:
    side = DiffSide([], {}, {}, {})
    for value in model.graph.inputs:
        if not value.is_initializer():
            side.values[value] = f"input {value.name}"
    _name_values(model.graph, side, nested=False)
    return side


def _name_values(graph: "ir.Graph", side: DiffSide, nested: bool) -> None:
    for weight in graph.initializers.values():
        if weight not in side.values:
            side.values[weight] = _weight(weight)
    for node in graph:
        if is_op(node, "Constant"):
            side.values[node.outputs[0]] = _weight(node.outputs[0])
            continue
        attributes = {name: _attribute(attr, side, node) for name, attr in sorted(node.attributes.items())}
        inputs = [side.of(value) for value in node.inputs]
        name = _digest(node.domain, node.op_type, node.overload, *map("=".join, attributes.items()), *inputs)
        for position, value in enumerate(node.outputs):
            side.values[value] = f"{name}.{position}"
        if not nested:
            side.nodes.append(node)
            side.ids[node] = name
            side.attributes[node] = attributes


def _attribute(attribute: "ir.Attr", side: DiffSide, node: "ir.Node") -> str:
    import onnx_ir as ir

    if attribute.type == ir.AttributeType.GRAPH:
        return _subgraph(attribute.as_graph(), side, node)
    if attribute.type == ir.AttributeType.TENSOR:
        return _tensor(attribute.as_tensor(), "")
    return str(attribute.value)


def _subgraph(graph: "ir.Graph", side: DiffSide, node: "ir.Node") -> str:
    for position, value in enumerate(graph.inputs):
        side.values[value] = f"{node.op_type} input {position}"
    _name_values(graph, side, nested=True)
    return _digest(*(side.values.get(value, "?") for value in graph.outputs))


def _weight(value: "ir.Value") -> str:
    import onnx_ir as ir

    tensor = ir.convenience.get_const_tensor(value)
    return f"value {value.name}" if tensor is None else _tensor(tensor, str(value.name))


def _tensor(tensor: "ir.TensorProtocol", name: str) -> str:
    import onnx_ir as ir

    content = name
    if tensor.dtype == ir.DataType.STRING:
        content = str(tensor.numpy().tolist())
    elif tensor.nbytes <= HASHED_BYTES:
        content = hashlib.sha1(tensor.tobytes(), usedforsecurity=False).hexdigest()
    return f"weight {tensor.dtype} {list(tensor.shape)} {content}"


def _digest(*words: str) -> str:
    return hashlib.sha1("\0".join(words).encode(), usedforsecurity=False).hexdigest()


def _by_computation(matching: Matching) -> None:
    waiting: dict[str, list[ir.Node]] = defaultdict(list)
    for node in reversed(matching.second.nodes):
        waiting[matching.second.ids[node]].append(node)
    for node in matching.first.nodes:
        if waiting[matching.first.ids[node]]:
            matching.pair(node, waiting[matching.first.ids[node]].pop())


def _node_name(node: "ir.Node") -> str:
    return node.name or ""


def _output_name(node: "ir.Node") -> str:
    return next((str(value.name) for value in node.outputs if value.name), "")


def _by_name(matching: Matching, naming: "Callable[[ir.Node], str]", same_operator: bool) -> None:
    named = {naming(b): b for b in matching.second.nodes if naming(b) and b not in matching.taken}
    for a in matching.first.nodes:
        b = named.get(naming(a))
        if b is None or a in matching.nodes or b in matching.taken:
            continue
        if not same_operator or matching.free(a, b):
            matching.pair(a, b)


def _by_place(matching: Matching) -> None:
    """Matches nodes that feed the same input of matched nodes, or alone of their operator read from them."""
    waiting = list(matching.nodes.items())
    for a, b in waiting:
        for near, other in _neighbours(a, b):
            if matching.free(near, other):
                matching.pair(near, other)
                waiting.append((near, other))


def _neighbours(a: "ir.Node", b: "ir.Node") -> "Iterator[tuple[ir.Node, ir.Node]]":
    if a.op_type == b.op_type:
        for left, right in zip(a.inputs, b.inputs, strict=False):
            makers = (left and left.producer(), right and right.producer())
            if makers[0] and makers[1]:
                yield makers[0], makers[1]
    for left_value, right_value in zip(a.outputs, b.outputs, strict=False):
        left_users, right_users = ([user for user, _ in v.uses()] for v in (left_value, right_value))
        for user in left_users:
            same = [each for each in right_users if each.op_type == user.op_type]
            if len(same) == 1 and sum(each.op_type == user.op_type for each in left_users) == 1:
                yield user, same[0]


def _differences(matching: Matching, rebuilt: "dict[ir.Node, str]") -> "dict[ir.Node, str]":
    """Describes the difference of each matched pair of nodes that is not identical."""
    different = {}
    for a, b in matching.nodes.items():
        differences = [*filter(None, [rebuilt.get(a)])]
        if a.op_type == b.op_type and matching.first.ids[a] != matching.second.ids[b]:
            differences += _other_inputs(a, b, matching, rebuilt)
        if differences:
            different[a] = "; ".join(differences)
    return different


def _rebuilt(matching: Matching) -> "dict[ir.Node, str]":
    """Describes the matched nodes that compute something else now, regardless of their inputs."""
    return {a: what for a, b in matching.nodes.items() if (what := _own_difference(a, b, matching))}


def _own_difference(a: "ir.Node", b: "ir.Node", matching: Matching) -> str:
    first, second = matching.first, matching.second
    if first.ids[a] == second.ids[b]:
        return ""
    if (a.domain, a.op_type) != (b.domain, b.op_type):
        return "another operator"
    old, new = first.attributes[a], second.attributes[b]
    differences = [
        f"{name}: {_short(old.get(name))} → {_short(new.get(name))}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]
    if len(a.inputs) != len(b.inputs):
        differences.append(f"{len(a.inputs)} inputs → {len(b.inputs)}")
    for position, (left, right) in enumerate(zip(a.inputs, b.inputs, strict=False)):
        sources = first.of(left), second.of(right)
        if sources[0] != sources[1] and sources[0].startswith("weight") and sources[1].startswith("weight"):
            differences.append(f"other weights (input {position})")
    return "; ".join(differences)


def _other_inputs(
    a: "ir.Node", b: "ir.Node", matching: Matching, rebuilt: "dict[ir.Node, str]"
) -> "Iterator[str]":
    for position, (left, right) in enumerate(zip(a.inputs, b.inputs, strict=False)):
        sources = matching.first.of(left), matching.second.of(right)
        if sources[0] == sources[1] or sources[0].startswith("weight"):
            continue
        if sources[1].startswith("weight"):
            yield f"input {position} is constant now"
        elif left is None or right is None or not _belong_together(left, right, matching, rebuilt):
            yield f"another input {position}"


def _belong_together(
    left: "ir.Value", right: "ir.Value", matching: Matching, rebuilt: "dict[ir.Node, str]"
) -> bool:
    maker, other = left.producer(), right.producer()
    if maker is None or other is None:
        return False
    if maker in matching.nodes:
        return matching.nodes[maker] is other and left.index() == right.index()
    return _host_before(maker, matching, rebuilt) is other


def _short(text: str | None) -> str:
    if text is None:
        return "none"
    return text if len(text) <= 40 else f"{text[:37]}..."


def _lost(
    node: "ir.Node", matching: Matching, different: "dict[ir.Node, str]", rebuilt: "dict[ir.Node, str]"
) -> NodeChange:
    """Classifies a node without a match: fused into a changed node before or after it, or gone."""
    if host := _host_before(node, matching, rebuilt):
        return NodeChange("fused into", label(node), label(host))
    waiting, seen = [node], {node}
    for each in waiting:
        for value in each.outputs:
            for user, position in value.uses():
                if user in different:
                    host = matching.nodes[user]
                    inputs = host.inputs
                    if position < len(inputs) and matching.second.of(inputs[position]).startswith("weight"):
                        return NodeChange("gone", label(node), what="its result is constant")
                    return NodeChange("fused into", label(node), label(host))
                if user not in matching.nodes and user not in seen and user in matching.first.ids:
                    seen.add(user)
                    waiting.append(user)
    return NodeChange("gone", label(node))


def _host_before(node: "ir.Node", matching: Matching, rebuilt: "dict[ir.Node, str]") -> "ir.Node | None":
    """Returns the changed node that absorbed this one: its only remaining source, if that feeds its readers now.

    All nodes between the two were absorbed as well.
    """
    current: ir.Node | None = node
    while current is not None and current not in matching.nodes:
        makers = {value.producer() for value in current.inputs if value is not None}
        known = [maker for maker in makers if maker is not None and maker in matching.first.ids]
        current = known[0] if len(known) == 1 else None
    if current is None or current not in rebuilt:
        return None
    host = matching.nodes[current]
    return host if _reads_on(node, host, matching) else None


def _reads_on(node: "ir.Node", host: "ir.Node", matching: Matching, further: bool = True) -> bool:
    """Whether the readers of a node, or of lost nodes after it, now read from the host."""
    for value in node.outputs:
        if value.is_graph_output() and value.name in {each.name for each in host.outputs}:
            return True
        for user, position in value.uses():
            other = matching.nodes.get(user)
            if other is None:
                if further and user in matching.first.ids and _reads_on(user, host, matching):
                    return True
            elif position < len(other.inputs):
                read = other.inputs[position]
                if read is not None and read.producer() is host:
                    return True
    return False
