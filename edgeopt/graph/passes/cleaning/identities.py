"""Removes nodes that pass their input on unchanged; `without_effect` says of each kind when it does."""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import (
    Notes,
    Pass,
    PassContext,
    PassResult,
    is_op,
    label,
    parts,
    plural,
    replace_value,
)
from edgeopt.graph.passes.knowledge.without_effect import PASSES_ON

if TYPE_CHECKING:
    import onnx_ir as ir


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Takes the nodes that change nothing out of all graphs."""
    model, notes = context.copy(model), Notes()
    removed: dict[str, list[str]] = {}
    for part in parts(model):
        for node in list(part):
            passes_on = PASSES_ON.get(node.op_type) if is_op(node, node.op_type) else None
            source = passes_on(node) if passes_on else None
            if source is None:
                continue
            if isinstance(source, str):
                notes.refuse(source, label(node))
            elif reason := replace_value(node.outputs[0], source):
                if not is_op(node, "Identity"):  # an Identity there is how ONNX spells "this input is that output"
                    notes.refuse(reason, label(node))
            else:
                removed.setdefault(node.op_type, []).append(label(node))
                part.remove(node, safe=True)
    for kind, names in removed.items():
        notes.did(f"removed {plural(len(names), f'{kind} node')} without effect", *names)
    return notes.result(model)


PASS = Pass("identities", "nodes that return their input unchanged are removed", apply)
