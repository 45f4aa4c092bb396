"""Computes now what never changes: constants, arithmetic on known shapes, `If`s with a known condition."""

import math
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import (
    Notes,
    Pass,
    PassContext,
    PassResult,
    constant,
    is_op,
    is_random,
    label,
    nodes_of,
    plural,
    quiet,
)

if TYPE_CHECKING:
    import onnx_ir as ir

ROUNDS = 6
# Small in the file and big in memory (the first), or carrying what a quantized kernel needs.
PRESERVED = ("ConstantOfShape", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Folds until nothing more folds, then makes weights of Constant nodes."""
    from onnx_ir.passes import common
    from onnxscript.optimizer import fold_constants_ir

    model, notes = model.clone(), Notes()
    before = {node: label(node) for node in nodes_of(model)}
    limit = context.folded_limit_bytes
    with quiet():
        for _ in range(ROUNDS):
            changed = fold_constants_ir(
                model,
                onnx_shape_inference=True,
                output_size_limit=limit // 4,
                should_fold=lambda node: _should_fold(node, limit, notes),
            ).modified
            changed |= common.RemoveUnusedNodesPass()(model).modified
            if not changed:
                break
        common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
        common.OutputFixPass()(model)
        common.NameFixPass()(model)
    _tell(before, set(nodes_of(model)), notes)
    return notes.result(model)


def _should_fold(node: "ir.Node", limit: int, notes: Notes) -> bool | None:
    if is_random(node):
        return False
    if is_op(node, *PRESERVED):
        return None
    added, freed = _output_bytes(node), 0
    for value in node.inputs:
        if value is not None and value.const_value is not None and len(value.uses()) == 1:
            freed += value.const_value.nbytes
    if added is None:
        return None
    if added > max(limit, freed):
        notes.refuse(f"the result would add {(added - freed) / 2**20:.1f} MiB to the model", label(node))
        return False
    return True


def _output_bytes(node: "ir.Node") -> int | None:
    """How big the results will be, where shape inference says so."""
    total = 0
    for value in node.outputs:
        if value.dtype is None or value.shape is None or not all(isinstance(dim, int) for dim in value.shape):
            return None
        total += math.ceil(math.prod(value.shape) * value.dtype.itemsize)
    return total


def _tell(before: "dict[ir.Node, str]", left: "set[ir.Node]", notes: Notes) -> None:
    gone = {node: name for node, name in before.items() if node not in left}
    lifted = [name for node, name in gone.items() if is_op(node, "Constant")]
    branches = [name for node, name in gone.items() if is_op(node, "If")]
    folded = [name for node, name in gone.items() if not is_op(node, "Constant", "If")]
    if branches:
        notes.did(f"resolved {plural(len(branches), 'If')} whose condition is known", *branches)
    if folded:
        notes.did(f"removed {plural(len(folded), 'node')} whose results are known or no longer needed", *folded)
    if lifted:
        notes.did(f"made weights of {plural(len(lifted), 'Constant node')}", *lifted)
    for node in left:
        if is_op(node, "If") and constant(node.inputs[0]) is None:
            notes.refuse("the condition of the If is known only when the model runs", label(node))


PASS = Pass("fold-constants", "what depends on constants alone is computed once, now", apply)
