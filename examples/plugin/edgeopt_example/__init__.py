"""A plug-in of edgeopt with one pass: Reciprocal(Reciprocal(x)) becomes x.

    pip install .
    edgeopt plugins
    edgeopt optimize model.onnx --data data.npz -o model.edgeopt

edgeopt imports this file in a worker process, when a search tries the pass.
"""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, is_op, label, nodes_of, replace_value

if TYPE_CHECKING:
    import onnx_ir as ir

OPERATOR = "Reciprocal"


def skip_pairs(model: "ir.Model", context: PassContext) -> PassResult:
    """What reads the second node of a pair then reads what the first one reads."""
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    # A pass leaves the model that it gets as it is.
    changed, notes = context.copy(model), Notes()
    for node in list(nodes_of(changed)):
        middle = node.inputs[0] if is_op(node, OPERATOR) else None
        first = middle.producer() if middle is not None else None
        if first is None or not is_op(first, OPERATOR) or first.inputs[0] is None:
            continue
        # The ledger shows what was changed, and why other matches were left as they are.
        refused = replace_value(node.outputs[0], first.inputs[0])
        if refused is not None:
            notes.refuse(refused, label(node))
            continue
        notes.did("a pair taken away", label(node))
    RemoveUnusedNodesPass()(changed)
    return notes.result(changed)


SKIP_RECIPROCALS = Pass(
    name="skip-reciprocals",
    title="Reciprocal(Reciprocal(x)) becomes x",
    apply=skip_pairs,
    tolerance_db=100.0,
)
