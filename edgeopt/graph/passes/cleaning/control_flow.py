"""Replacement of branches and loops with known control flow by plain nodes.

    If(true)                         = its first branch
    Loop(0 times), Loop(never)       = what went in; what it would have collected is empty
    Loop(once)                       = its body, with what it collects wrapped in one more dimension

Branches stop computing results without readers.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import (
    Notes,
    Pass,
    PassContext,
    PassResult,
    constant,
    is_op,
    label,
    plural,
    quiet,
    replace_value,
)
from edgeopt.graph.passes.knowledge.names import constant_before

if TYPE_CHECKING:
    import onnx_ir as ir


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    from onnx_ir.passes import common

    model, notes = context.copy(model), Notes()
    for node in [node for graph in model.graphs() for node in graph]:
        if node.graph is None:  # it was removed with its branch
            continue
        if is_op(node, "If"):
            _resolve_if(node, notes)
        elif is_op(node, "Loop"):
            _resolve_loop(node, notes)
    for graph in model.graphs():
        for node in list(graph):
            if is_op(node, "If"):
                _drop_unread_results(node, notes)
    if notes.applied:
        with quiet():
            common.NameFixPass()(model)
    return notes.result(model)


def _resolve_if(node: "ir.Node", notes: Notes) -> None:
    condition = constant(node.inputs[0])
    if condition is None:
        return
    branch = node.attributes["then_branch" if condition.all() else "else_branch"]
    if branch.is_ref():
        return
    name = label(node)
    _become(node, _move_out(branch.as_graph(), node))
    notes.did("replaced an If by the branch that always runs", name)


def _resolve_loop(node: "ir.Node", notes: Notes) -> None:
    times = _constant_input(node, 0)
    goes_on = _constant_input(node, 1)
    body = node.attributes["body"]
    if body.is_ref():
        return
    starts = goes_on is not False and (not _has_input(node, 1) or goes_on is True)
    if times == 0 or goes_on is False:
        _skip_loop(node, body.as_graph(), notes)
    elif starts and times is not None and (times == 1 or (times > 0 and _stops_at_once(body.as_graph()))):
        _run_once(node, body.as_graph(), notes)


def _has_input(node: "ir.Node", index: int) -> bool:
    return index < len(node.inputs) and node.inputs[index] is not None


def _constant_input(node: "ir.Node", index: int) -> int | bool | None:
    array = constant(node.inputs[index]) if _has_input(node, index) else None
    return None if array is None or array.size != 1 else array.reshape(-1)[0].item()


def _stops_at_once(body: "ir.Graph") -> bool:
    goes_on = constant(body.outputs[0])
    return goes_on is not None and not goes_on.any()


def _skip_loop(node: "ir.Node", body: "ir.Graph", notes: Notes) -> None:
    import numpy as np

    carried = len(node.inputs) - 2
    results: list[ir.Value] = [value for value in node.inputs[2:] if value is not None]
    collected = list(zip(node.outputs[carried:], body.outputs[1 + carried :], strict=True))
    if len(results) != carried:
        return
    for output, element in collected:
        read = output.uses() or output.is_graph_output()
        known = element.shape is not None and element.shape.is_static() and element.dtype is not None
        if read and not known:
            notes.refuse("the shape of the collected outputs is not known", label(node))
            return
    assert node.graph is not None  # noqa: S101 - the caller saw to it
    for output, element in collected:
        shape = (0, *element.shape.numpy()) if element.shape is not None and element.shape.is_static() else (0,)
        kind = np.float32 if element.dtype is None else element.dtype.numpy()
        results.append(constant_before(node, f"{output.name}__empty", np.zeros(shape, kind)))
    name = label(node)
    _become(node, results)
    notes.did("removed loops that never run", name)


def _run_once(node: "ir.Node", body: "ir.Graph", notes: Notes) -> None:
    import numpy as np
    import onnx_ir as ir

    assert node.graph is not None  # noqa: S101 - the caller saw to it
    name, carried = label(node), len(node.inputs) - 2
    first = constant_before(node, f"{name}__iteration", np.array(0, np.int64))
    goes_on = constant_before(node, f"{name}__condition", np.array(True))
    actual = [first, goes_on, *node.inputs[2:]]
    for formal, value in zip(list(body.inputs), actual, strict=True):
        if value is None:
            return
        formal.replace_all_uses_with(value, replace_graph_outputs=True)
    results = _move_out(body, node)[1:]
    axis = constant_before(node, f"{name}__axis", np.array([0], np.int64)) if results[carried:] else None
    for place in range(carried, len(results)):
        inner = results[place]
        wider = ir.node("Unsqueeze", [inner, axis])
        wider.outputs[0].name, wider.outputs[0].type = f"{inner.name}__collected", inner.type
        if inner.shape is not None:
            wider.outputs[0].shape = ir.Shape([1, *inner.shape])
        node.graph.insert_before(node, wider)
        results[place] = wider.outputs[0]
    _become(node, results)
    notes.did("replaced loops that run once by their body", name)


def _move_out(inner: "ir.Graph", node: "ir.Node") -> "list[ir.Value]":
    """Moves a subgraph's nodes and weights to the place of its node; returns the former outputs."""
    outer = node.graph
    assert outer is not None  # noqa: S101 - the caller saw to it
    results = list(inner.outputs)
    inner.outputs.clear()
    nodes = list(inner)
    inner.remove(nodes)
    for name in list(inner.initializers):
        weight = inner.initializers.pop(name)
        number, unique = 0, name
        while unique in outer.initializers:
            number += 1
            unique = f"{name}_{number}"
        weight.name = unique
        outer.register_initializer(weight)
    outer.insert_before(node, nodes)
    return results


def _become(node: "ir.Node", results: "Sequence[ir.Value]") -> None:
    """Redirects the readers of a node to other values, and removes the node."""
    import onnx_ir as ir

    graph = node.graph
    assert graph is not None  # noqa: S101 - the caller saw to it
    for old, new in zip(list(node.outputs), results, strict=True):
        if new.type is None:
            new.type = old.type
        if new.shape is None:
            new.shape = old.shape
        if replace_value(old, new) is None:
            continue
        same = ir.node("Identity", [new])
        graph.insert_before(node, same)
        result, name = same.outputs[0], old.name
        result.type, result.shape = old.type, old.shape
        old.replace_all_uses_with(result, replace_graph_outputs=True)
        old.name, result.name = f"{name}__replaced", name
    graph.remove(node, safe=True)


def _drop_unread_results(node: "ir.Node", notes: Notes) -> None:
    import onnx_ir as ir

    read = [bool(output.uses() or output.is_graph_output()) for output in node.outputs]
    if all(read) or not any(read):  # without any, the whole node is dead
        return
    branches = [attribute.as_graph() for attribute in node.attributes.values() if not attribute.is_ref()]
    if len(branches) != 2:
        return
    gone = read.count(False)
    for branch in branches:
        kept = [output for output, is_read in zip(list(branch.outputs), read, strict=True) if is_read]
        branch.outputs.clear()
        branch.outputs.extend(kept)
    old = [output for output, is_read in zip(node.outputs, read, strict=True) if is_read]
    new = ir.Node(
        node.domain, "If", node.inputs, list(node.attributes.values()), num_outputs=len(old), name=node.name
    )
    for source, target in zip(old, new.outputs, strict=True):
        target.name, target.type, target.shape = source.name, source.type, source.shape
    assert node.graph is not None  # noqa: S101 - it was found in one
    ir.convenience.replace_nodes_and_values(node.graph, node, [node], [new], old, list(new.outputs))
    notes.did(f"dropped {plural(gone, 'result')} of an If that nothing reads", label(new))


PASS = Pass("control-flow", "branches and loops with known conditions become plain nodes", apply)
