"""A pass: two negations in a row have no effect, so what reads the second one reads what entered the first."""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, is_op, label, nodes_of, replace_value

if TYPE_CHECKING:
    import onnx_ir as ir


def skip_double_negation(model: "ir.Model", context: PassContext) -> PassResult:
    """Works on a copy, because edgeopt goes back to the model from before where a pass fails."""
    changed = context.copy(model)
    notes = Notes()
    for node in list(nodes_of(changed)):
        inner = node.inputs[0].producer() if is_op(node, "Neg") and node.inputs[0] is not None else None
        if inner is None or not is_op(inner, "Neg") or inner.inputs[0] is None:
            continue
        name, refused = label(node), replace_value(node.outputs[0], inner.inputs[0])
        if refused is not None:
            notes.refuse(refused, name)
            continue
        if node.graph is not None:
            node.graph.remove(node, safe=True)
        notes.did("two negations taken away", name)
    return notes.result(changed)


DOUBLE_NEGATION = Pass("double-negation", "Neg(Neg(x)) becomes x", skip_double_negation)
