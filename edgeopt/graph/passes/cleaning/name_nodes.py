"""Names nodes that have no name or another's, so that profiles, ledgers and comparisons can tell them apart."""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, nodes_of, plural

if TYPE_CHECKING:
    import onnx_ir as ir


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """The first node of a name keeps it; others are called by their operator and first output."""
    model, notes = context.copy(model), Notes()
    nodes = list(nodes_of(model))
    taken: set[str] = set()
    nameless: list[ir.Node] = []
    for node in nodes:
        if node.name and node.name not in taken:
            taken.add(node.name)
        else:
            nameless.append(node)
    for node in nameless:
        node.name = _free(_described(node), taken)
        taken.add(node.name)
    if nameless:
        notes.did(f"named {plural(len(nameless), 'node')}", *(str(node.name) for node in nameless))
    return notes.result(model)


def _described(node: "ir.Node") -> str:
    output = next((value.name for value in node.outputs if value.name), None)
    return f"{node.op_type}_{output}" if output else node.op_type


def _free(name: str, taken: set[str]) -> str:
    number, free = 0, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


PASS = Pass("name-nodes", "nodes without a name of their own get one", apply)
