"""Removes what no output needs: nodes, weights, functions, and opsets that nothing uses."""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, label, nodes_of, plural, quiet

if TYPE_CHECKING:
    import onnx_ir as ir


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Walks back from the outputs; inputs stay, used or not."""
    from onnx_ir.passes import common

    model, notes = context.copy(model), Notes()
    nodes = {node: label(node) for node in nodes_of(model)}
    weights, functions = _weights(model), set(model.functions)
    with quiet():
        common.RemoveUnusedNodesPass()(model)
        _remove_unused_weights_of_subgraphs(model)
        common.RemoveUnusedFunctionsPass()(model)
        common.RemoveUnusedOpsetsPass()(model)
    left = set(nodes_of(model))
    dead = [name for node, name in nodes.items() if node not in left]
    if dead:
        notes.did(f"removed {plural(len(dead), 'node')} that no output needs", *dead)
    if gone := sorted(weights - _weights(model)):
        notes.did(f"removed {plural(len(gone), 'unused weight')}", *gone)
    if lost := sorted(name for _, name, _ in functions - set(model.functions)):
        notes.did(f"removed {plural(len(lost), 'unused function')}", *lost)
    return notes.result(model)


def _weights(model: "ir.Model") -> set[str]:
    return {str(name) for graph in model.graphs() for name in graph.initializers}


def _remove_unused_weights_of_subgraphs(model: "ir.Model") -> None:
    for graph in model.graphs():
        for name, weight in list(graph.initializers.items()):
            if not (weight.uses() or weight.is_graph_output() or weight.is_graph_input()):
                del graph.initializers[name]


PASS = Pass("dead-nodes", "nodes, weights and functions that no output needs are removed", apply)
