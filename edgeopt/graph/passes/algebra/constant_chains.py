"""Chains of arithmetic with constants become one scale and one shift.

    ((x * a) + b) * c + d  =  x * (a c) + (b c + d)

Computed in float64 and rounded once. Only where fewer nodes are left, where no constant makes the tensor bigger
than it is, and where the chain rounds nothing off that the two steps would keep, or the other way round: x + 1 - 1
is 0 for x = 1e-12. Integers are left alone: their arithmetic wraps around, and their division rounds.
"""

from typing import TYPE_CHECKING, Any

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, constant, is_op, label
from edgeopt.graph.passes.knowledge.arithmetic import (
    SIGN,
    Chain,
    ScaleAndShift,
    chained,
    step_of,
    tells_zeros_apart,
    widens,
)
from edgeopt.graph.passes.knowledge.linear import fits, new_weight, rounds_away
from edgeopt.graph.passes.knowledge.names import separate_names

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray

_ROLE = {"Mul": "scale", "Add": "shift"}
_GROWTH = 2  # a column and a row become a matrix, which can be far larger than both


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Merges every chain that gets shorter, in subgraphs too."""
    model, notes = context.copy(model), Notes()
    for part in model.graphs():  # functions are inlined before; they can hold no weights
        for last in [node for node in part if step_of(node) and not _goes_on(node)]:
            _merge(part, last, notes)
    separate_names(model)
    return notes.result(model)


def _goes_on(node: "ir.Node") -> bool:
    """Whether the one node that reads the result continues the chain."""
    result = node.outputs[0]
    uses = list(result.uses())
    if result.is_graph_output() or len(uses) != 1:
        return False
    reader = uses[0].node
    return reader.graph is node.graph and step_of(reader) is not None


def _merge(part: "ir.Graph", last: "ir.Node", notes: Notes) -> None:
    chain, steps = _chain(last)
    source = steps[0].source
    if len(chain) < 2 or source.dtype is None:
        return
    whole = chained(steps, source.dtype.numpy())
    wanted = [("Mul", whole.factor)] if not (whole.factor == 1).all() else []
    wanted += [("Add", whole.shift)] if whole.shift.any() else []
    if len(wanted) >= len(chain) or not wanted:
        return
    names = [label(node) for node in reversed(chain)]
    if reason := _why_not(source, chain, wanted, whole):
        notes.refuse(reason, *names)
        return
    _put(part, last, source, wanted)
    for node in chain:
        part.remove(node, safe=True)
    notes.did("merged chains of arithmetic with constants", *names)


def _chain(last: "ir.Node") -> "tuple[list[ir.Node], list[ScaleAndShift]]":
    """The nodes from the last to the first, and their steps from the first to the last."""
    chain, step = [last], step_of(last)
    assert step is not None  # noqa: S101 - tells mypy; the caller has seen it
    steps = [step]
    while True:
        before = steps[0].source.producer()
        further = step_of(before) if before is not None and _goes_on(before) else None
        if further is None or before is None:
            return chain, steps
        chain.append(before)
        steps.insert(0, further)


def _why_not(
    source: "ir.Value", chain: "list[ir.Node]", wanted: "list[tuple[str, NDArray[Any]]]", whole: Chain
) -> str | None:
    assert source.dtype is not None  # noqa: S101 - tells mypy; the caller has seen it
    given = 0
    for node in chain:
        step = step_of(node)
        for value in node.inputs:
            if step is not None and value is not step.source and value is not None:
                number = constant(value)
                if number is None or widens(source, number):
                    return f"the constant '{value.name}' may broadcast the tensor to a larger shape"
                given += number.size
    numbers = [number for _, number in wanted]
    if sum(number.size for number in numbers) > _GROWTH * given:
        return "the merged constants would be larger than those of the chain"
    if not all(fits(number, source.dtype.numpy()) for number in numbers):
        return f"the merged constants do not fit into {source.dtype.name.lower()}"
    if rounds_away(whole.largest, source.dtype.numpy()):
        return "it adds and subtracts so much that the merged chain would round differently"
    if whole.reason:
        return whole.reason
    adds = any(is_op(node, "Add", "Sub") for node in chain)
    if adds and not whole.shift.any() and tells_zeros_apart(chain[0].outputs[0]):
        return SIGN
    return None


def _put(part: "ir.Graph", last: "ir.Node", source: "ir.Value", wanted: "list[tuple[str, NDArray[Any]]]") -> None:
    import onnx_ir as ir

    result, current = last.outputs[0], source
    assert source.dtype is not None  # noqa: S101 - _why_not() has seen to it
    stem = last.name or result.name or "chain"
    for kind, number in wanted:
        weight = new_weight(part, f"{stem}_{_ROLE[kind]}", number.astype(source.dtype.numpy()))
        node = ir.node(kind, [current, weight], name=f"{stem}_{kind.lower()}")
        node.outputs[0].name = f"{result.name}_{kind.lower()}"
        node.outputs[0].shape, node.outputs[0].type = source.shape, source.type
        part.insert_before(last, node)
        current = node.outputs[0]
    name, shape, kind_ = result.name, result.shape, result.type
    result.replace_all_uses_with(current, replace_graph_outputs=True)
    result.name, current.name = f"{name}__merged", name
    current.shape, current.type = shape or current.shape, kind_ or current.type


PASS = Pass(
    "constant-chains",
    "chains of arithmetic with constants become one scale and one shift",
    apply,
    tolerance_db=100.0,
)
