"""Unique names, also across nested subgraphs, and constants for passes."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import inner_graphs

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir
    from numpy.typing import NDArray


def separate_names(model: "ir.Model") -> None:
    """Renames values and nodes whose name exists already, except the model's inputs and outputs.

    Sibling subgraphs may use the same names, as neither reads from the other.
    """
    for part in (model.graph, *model.functions.values()):
        _separate(part, set(), set())


def name_apart(model: "ir.Model") -> None:
    """Gives values of subgraphs names that no other graph uses, so that a branch can replace its `If`."""
    taken: set[str] = set()
    for part in model.graphs():
        weights, results = part.initializers.values(), (value for node in part for value in node.outputs)
        taken = _rename(dict.fromkeys((*part.inputs, *part.outputs, *weights, *results)), taken)


def _separate(part: "ir.Graph | ir.Function", values_around: set[str], nodes_around: set[str]) -> None:
    """Makes names unique, considering the names of outer graphs first."""
    weights = part.initializers.values() if hasattr(part, "initializers") else ()
    results = (value for node in part for value in node.outputs)
    values = dict.fromkeys((*part.inputs, *part.outputs, *weights, *results))
    taken = _rename(values, values_around)
    called = _rename(part, nodes_around)
    for node in part:
        for inner in inner_graphs(node):
            _separate(inner, taken, called)


def _rename(named: "Iterable[ir.Value | ir.Node]", around: set[str]) -> set[str]:
    taken = set(around)
    for one in named:
        if not one.name:
            continue
        name, number = one.name, 1
        while (free := name if number == 1 else f"{name}_{number}") in taken:
            number += 1
        taken.add(free)
        if free != name:
            one.name = free
    return taken


def constant_before(node: "ir.Node", name: str, array: "NDArray[np.generic]") -> "ir.Value":
    """Adds a Constant in the same graph; its name may exist already, so that a name fix must follow."""
    import onnx_ir as ir

    tensor = ir.tensor(array, name=name)
    made = ir.node("Constant", [], attributes={"value": tensor})
    result = made.outputs[0]
    result.name, result.dtype, result.shape = name, tensor.dtype, ir.Shape(tensor.shape)
    assert node.graph is not None  # noqa: S101 - it was found in one
    node.graph.insert_before(node, made)
    return result
