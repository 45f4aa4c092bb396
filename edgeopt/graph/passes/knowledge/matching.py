"""Matching of several nodes that compute one operator, and their replacement by that operator.

Arithmetic is compared as polynomials, so that every way of writing x * 0.5 * (1 + erf(x / 1.414)) is the same:
the order of operands and factors, divisions for products, powers for squares.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from edgeopt.graph.passes.base import Notes, PassContext, PassResult, is_op, label, parts, plural

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir

ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Neg", "Pow", "Sum")
DEPTH = 8
"""Maximum depth of a match in nodes; no known spelling of an activation is deeper."""

Operand = Any
"""Operand of an operator: a value of the graph, an array that becomes a weight, or None if omitted."""


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """A match: the equivalent operator of `root`, and the `nodes` that it makes superfluous, including root."""

    root: "ir.Node"
    nodes: "tuple[ir.Node, ...]"
    operator: str
    inputs: tuple[Operand, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""
    opset: int = 0
    """Lowest opset of onnx with the operator."""
    reason: str | None = None
    """Reason why the match is not replaced; None if it can be."""
    others: "tuple[ir.Node, ...]" = ()
    """Nodes that are removed too, unless something else uses their results."""
    prepare: "Callable[[], tuple[list[ir.Node], tuple[Operand, ...]]] | None" = None
    """Creates the nodes before the operator and returns them with its inputs; called only on replacement."""


def fuse(
    model: "ir.Model", context: PassContext, find: "Callable[[ir.Node], PatternMatch | None]", what: str
) -> PassResult:
    """Calls `find` with every node and replaces the matches; `what` names one in the ledger."""
    model, notes, done, gone = context.copy(model), Notes(), [], set[Any]()
    for part, opset in homes(model):
        for node in list(part):
            found = find(node) if node not in gone else None
            if found is None:
                continue
            if reason := found.reason or _refusal(found, opset):
                notes.refuse(reason, label(node))
                continue
            done.append(label(found.root))
            gone.update(replace(part, model, found))
    if done:
        notes.did(f"fused {plural(len(done), what)}", *done)
    return notes.result(model)


def homes(model: "ir.Model") -> "Iterator[tuple[ir.Graph | ir.Function, int]]":
    """Yields every graph and function, with its opset of onnx."""
    import onnx_ir as ir

    own = model.opset_imports.get("", 1)
    for part in parts(model):
        yield part, part.opset_imports.get("", own) if isinstance(part, ir.Function) else own


def _refusal(found: PatternMatch, opset: int) -> str | None:
    if opset < found.opset:
        return f"{found.operator} needs opset {found.opset}; `--opset {found.opset}` raises it"
    inside = _swallowed(found)
    for node in found.nodes:
        if node.graph is not found.root.graph:
            return f"{label(node)} is outside the subgraph that holds the rest"
        if node is found.root:
            continue
        for value in node.outputs:
            if value.is_graph_output() or any(use.node not in inside for use in value.uses()):
                return f"the result of {label(node)} is used elsewhere too"
    return None


SHAPES = ("Constant", "Shape", "Gather", "Slice", "Unsqueeze", "Squeeze", "Concat", "Cast")


def _swallowed(found: PatternMatch) -> "set[ir.Node]":
    """Returns the nodes of a match, and those that only compute constants and shapes for them."""
    inside = {*found.nodes, *found.others}
    kept = {id(one) for one in found.inputs}
    queue = deque(inside)
    while queue:
        for value in queue.popleft().inputs:
            node = value.producer() if value is not None else None
            if node is None or node in inside or id(value) in kept or not is_op(node, *SHAPES):
                continue
            if all(use.node in inside for use in value.uses()) and not value.is_graph_output():
                inside.add(node)
                queue.append(node)
    return inside


def replace(part: "ir.Graph | ir.Function", model: "ir.Model", found: PatternMatch) -> "set[ir.Node]":
    """Replaces the root of a match by the operator; returns the removed nodes."""
    import onnx_ir as ir

    root, old = found.root, found.root.outputs[0]
    gone, waiting = set[Any](), list(_swallowed(found))
    before, operands_now = found.prepare() if found.prepare is not None else ([], found.inputs)
    for one in before:
        part.insert_before(root, one)
    inputs = [as_value(part, one, root) for one in operands_now]
    node = ir.node(found.operator, inputs, found.attributes, domain=found.domain, name=root.name)
    node.metadata_props.update(root.metadata_props)
    new = node.outputs[0]
    new.shape, new.type, name = old.shape, old.type, old.name
    if found.domain and found.domain not in model.opset_imports:
        model.opset_imports[found.domain] = 1
    if found.domain and isinstance(part, ir.Function) and found.domain not in part.opset_imports:
        part.opset_imports[found.domain] = 1
    part.insert_before(root, node)
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    old.name, new.name = f"{name}__replaced", name
    while waiting:
        # Removes from the root backwards, whatever the order of the pattern.
        free = [one for one in waiting if not any(v.uses() or v.is_graph_output() for v in one.outputs)]
        if not free:
            break
        for one in free:
            waiting.remove(one)
            gone.add(one)
            one.graph.remove(one, safe=True)
    return gone


def as_value(part: "ir.Graph | ir.Function", operand: Operand, before: "ir.Node") -> "ir.Value | None":
    """Converts an operand to a value of the graph; an array becomes a weight, or a Constant in a function."""
    import onnx_ir as ir

    if operand is None or isinstance(operand, ir.Value):
        return operand
    tensor = ir.tensor(operand)
    stem = before.name or before.outputs[0].name or "fused"
    if isinstance(part, ir.Function):
        node = ir.node("Constant", [], {"value": tensor})
        part.insert_before(before, node)
        return node.outputs[0]
    number = 0
    while (name := f"{stem}_operand_{number}") in part.initializers:
        number += 1
    value = ir.Value(name=name, const_value=tensor, shape=tensor.shape, type=ir.TensorType(tensor.dtype))
    part.register_initializer(value)
    return value


# Constants


def scalar(value: "ir.Value | None") -> float | None:
    """Returns the number of a constant with one element, else None; big weights are not read."""
    tensor = _tensor(value)
    return float(tensor.numpy().reshape(())) if tensor is not None and tensor.size == 1 else None


def _tensor(value: "ir.Value | None") -> "ir.TensorProtocol | None":
    import onnx_ir as ir

    return None if value is None or value.is_graph_input() else ir.convenience.get_const_tensor(value)


def integers(value: "ir.Value | None", maximum: int = 8) -> tuple[int, ...] | None:
    """Returns a short constant list of integers, such as axes or a shape, else None."""
    tensor = _tensor(value)
    if tensor is None or tensor.size > maximum:
        return None
    return tuple(int(number) for number in tensor.numpy().reshape(-1))


ULPS = 2
"""Tolerance in units in the last place: exporters multiply up to four constants, each rounded by half a unit."""
_UNIT = {"FLOAT16": 2.0**-10, "BFLOAT16": 2.0**-7, "DOUBLE": 2.0**-52}


def near(one: float, other: float, value: "ir.Value | None" = None) -> bool:
    """Whether two factors are equal except for rounding in the type of `value`, float32 if unknown.

    1.4142 is not the root of 2, nor 0.1667 a sixth: a model that contains them computes something else.
    """
    unit = _UNIT.get(value.dtype.name, 2.0**-23) if value is not None and value.dtype is not None else 2.0**-23
    return abs(one - other) <= ULPS * unit * abs(other)


# Data flow


def producer(value: "ir.Value | None", *types: str) -> "ir.Node | None":
    """Returns the node that produces a value, if it has one of these types."""
    node = value.producer() if value is not None else None
    return node if is_op(node, *types) else None


def rank(value: "ir.Value | None") -> int | None:
    return len(value.shape) if value is not None and value.shape is not None else None


def operands(node: "ir.Node") -> "Iterator[tuple[ir.Value, ir.Value]]":
    """Yields the two operands of a commutative node in both orders."""
    one, other = node.inputs[:2]
    if one is not None and other is not None:
        yield one, other
        if one is not other:
            yield other, one


def upstream(value: "ir.Value | None", depth: int = DEPTH) -> "list[ir.Value]":
    """Lists a value and all values that it is computed from by arithmetic, nearest first."""
    seen: dict[Any, int] = {}
    queue = deque([(value, 0)])
    while queue:
        one, level = queue.popleft()
        if one is None or one in seen or scalar(one) is not None:
            continue
        seen[one] = level
        if level < depth and (node := producer(one, *ARITHMETIC)) is not None:
            queue.extend((below, level + 1) for below in node.inputs)
    return list(seen)


def downstream(value: "ir.Value", depth: int = 4) -> "list[ir.Node]":
    """Lists the arithmetic nodes that depend on a value, nearest first."""
    seen: dict[Any, None] = {}
    level = [value]
    for _ in range(depth):
        users = [use.node for one in level for use in one.uses() if is_op(use.node, *ARITHMETIC)]
        new = [user for user in users if user not in seen]
        seen.update(dict.fromkeys(new))
        level = [user.outputs[0] for user in new]
    return list(seen)


# Polynomials


@dataclass(slots=True)
class Polynomial:
    """Coefficients of a polynomial by powers of the atoms, the nodes that compute it, and their widest
    constant."""

    terms: dict[tuple[int, ...], float]
    nodes: "list[ir.Node]" = field(default_factory=list)
    widest: int = 0

    def equals(self, terms: Mapping[Any, float], value: "ir.Value | None" = None) -> bool:
        """Whether the terms are equal except for rounding and no constant gives the result more dimensions."""
        if self.widest and (rank(value) is None or self.widest > (rank(value) or 0)):
            return False
        return self.terms.keys() == terms.keys() and all(near(self.terms[k], terms[k], value) for k in terms)


def polynomial(value: "ir.Value | None", atoms: "tuple[ir.Value, ...]", depth: int = DEPTH) -> Polynomial | None:
    """Expresses a value as a polynomial in the atoms; None if it depends on anything else."""
    for place, atom in enumerate(atoms):
        if value is atom:
            return Polynomial({_unit(place, len(atoms)): 1.0})
    if (number := scalar(value)) is not None:
        return Polynomial({(0,) * len(atoms): number} if number else {}, [], rank(value) or 0)
    node = producer(value, *ARITHMETIC)
    if node is None or depth == 0:
        return None
    below = [polynomial(one, atoms, depth - 1) for one in node.inputs]
    known = [one for one in below if one is not None]
    if len(known) < len(below):
        return None
    terms = _combined(node.op_type, [one.terms for one in known])
    if terms is None:
        return None
    nodes = list(dict.fromkeys([node, *(inner for one in known for inner in one.nodes)]))
    return Polynomial(terms, nodes, max(one.widest for one in known))


Terms = dict[tuple[int, ...], float]


def _combined(kind: str, parts: list[Terms]) -> Terms | None:
    first, rest = parts[0], parts[1:]
    if kind == "Neg":
        return {powers: -factor for powers, factor in first.items()}
    if kind in {"Add", "Sum"}:
        return _sum(parts)
    if kind == "Sub":
        return _sum([first, {powers: -factor for powers, factor in rest[0].items()}])
    if kind == "Mul":
        return _product(first, rest[0])
    number = _number(rest[0])
    if kind == "Div":
        return None if not number else {powers: factor / number for powers, factor in first.items()}
    if number not in {1.0, 2.0, 3.0}:
        return None
    power = first
    for _ in range(int(number) - 1):
        power = _product(power, first)
    return power


def _sum(parts: list[Terms]) -> Terms:
    total: Terms = {}
    for part in parts:
        for powers, factor in part.items():
            total[powers] = total.get(powers, 0.0) + factor
    return {powers: factor for powers, factor in total.items() if factor}


def _product(one: Terms, other: Terms) -> Terms:
    return _sum([
        {tuple(a + b for a, b in zip(left, right, strict=True)): by * times}
        for left, by in one.items()
        for right, times in other.items()
    ])  # fmt: skip


def _number(terms: Terms) -> float | None:
    """Returns the value of a polynomial without atoms, else None."""
    if not terms:
        return 0.0
    return next(iter(terms.values())) if all(not any(powers) for powers in terms) else None


def _unit(place: int, length: int) -> tuple[int, ...]:
    return tuple(int(k == place) for k in range(length))


def written_as(
    inner: "ir.Value", argument: Mapping[Any, float], value: "ir.Value", whole: Mapping[Any, float]
) -> "tuple[ir.Value, ir.Node, tuple[ir.Node, ...]] | None":
    """Matches `inner` = argument(x) and a root whole(x, value); returns x, the root and the nodes of both."""
    for x in upstream(inner):
        of_inner = polynomial(inner, (x,))
        if of_inner is None or not of_inner.equals(argument, x):
            continue
        for root in downstream(value):
            of_root = polynomial(root.outputs[0], (x, value))
            if of_root is not None and of_root.equals(whole, x):
                return x, root, (*of_root.nodes, *of_inner.nodes)
    return None


def tensor_like(x: "ir.Value", array: "np.ndarray[Any, Any]") -> "ir.Tensor":
    """Returns an array as a tensor in the type of x."""
    import onnx_ir as ir

    dtype = x.dtype or ir.DataType.FLOAT
    return ir.Tensor(array.astype(dtype.numpy()), dtype=dtype)
