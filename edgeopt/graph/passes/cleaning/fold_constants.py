"""Computes now what never changes: constants, arithmetic on known shapes, `If`s with a known condition."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgeopt import units
from edgeopt.graph.inference import squeezes_by_no_axes
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
    parts,
    plural,
    quiet,
)
from edgeopt.graph.passes.knowledge.linear import spreads_weights
from edgeopt.graph.passes.knowledge.names import name_apart

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir

ROUNDS = 6
SMALL_ELEMENTS = 16_384  # of a filled tensor: the scales of a normalization may go into the file, weights not
SMALL_BYTES = SMALL_ELEMENTS * 4
# Small in the file and big in memory (the first), or carrying what a quantized kernel needs.
PRESERVED = ("ConstantOfShape", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")

SPLIT_BY_INPUT, SPLIT_BY_NUMBER = 13, 18
"""The opsets from which Split takes its sizes as an input, and their number as an attribute."""

# onnx's reference, which does the folding, is wrong about them (docs/upstream.md).
MISCOMPUTED = ("GlobalMaxPool", "LRN", "LogSoftmax", "LpNormalization", "OneHot")


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Folds until nothing more folds, then makes weights of Constant nodes."""
    from onnx_ir.passes import common

    model, notes = context.copy(model), Notes()
    before = {node: label(node) for node in nodes_of(model)}
    limit = context.folded_limit_bytes
    budget = Budget(limit, max(limit, _weight_bytes(model)))
    _keep_overflows(model)
    name_apart(model)
    with quiet():
        for _ in range(ROUNDS):
            changed = _fold(model, limit, lambda node: _should_fold(node, budget, notes))
            changed |= common.RemoveUnusedNodesPass()(model).modified
            if not changed:
                break
        common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
        if not any(value.is_graph_input() for value in model.graph.outputs):  # the fix would rename the input
            common.OutputFixPass()(model)
        common.NameFixPass()(model)
    _tell(before, set(nodes_of(model)), notes)
    return notes.result(model)


def _keep_overflows(model: "ir.Model") -> None:
    """Spells a CastLike that does not saturate as such a Cast; onnxscript's folding makes one that saturates."""
    import onnx_ir as ir

    for part in parts(model):
        for node in list(part):
            like = node.inputs[1] if is_op(node, "CastLike") else None
            if like is None or like.dtype is None or "saturate" not in node.attributes:
                continue
            attributes = [ir.AttrInt64("to", like.dtype), node.attributes["saturate"]]
            cast = ir.Node("", "Cast", node.inputs[:1], attributes, name=node.name, outputs=None, num_outputs=1)
            result, kept = node.outputs[0], cast.outputs[0]
            kept.name, kept.type, kept.shape = result.name, result.type, result.shape
            ir.convenience.replace_nodes_and_values(part, node, [node], [cast], [result], [kept])


@dataclass(slots=True)
class Budget:
    """How much folding may add to the model: by one result, and by all that are left to come."""

    one_bytes: int
    left_bytes: int


def _weight_bytes(model: "ir.Model") -> int:
    import onnx_ir as ir

    weights = [weight for graph in model.graphs() for weight in graph.initializers.values()]
    held = [weight.const_value for weight in weights if weight.const_value is not None]
    return sum(tensor.nbytes for tensor in held if tensor.dtype != ir.DataType.STRING)


def _fold(model: "ir.Model", limit: int, should_fold: "Callable[[ir.Node], bool | None]") -> bool:
    """One sweep of onnxscript's folding; a node that it cannot cope with stays as it is."""
    from onnxscript.optimizer._constant_folding import FoldConstantsPass

    class Sweep(FoldConstantsPass):  # type: ignore[misc, unused-ignore]
        def process_node(self, node: "ir.Node", is_function: bool) -> object:
            if is_op(node, "SplitToSequence") and self._opset_imports.get("", 1) < SPLIT_BY_INPUT:
                return None
            try:
                found = super().process_node(node, is_function)
            except RuntimeError:  # what the folding of one operator raises, whatever the cause
                return None
            if found is not None and self._opset_imports.get("", 1) < SPLIT_BY_NUMBER:
                for made in found.new_nodes:
                    if is_op(made, "Split"):  # into equal parts, which is what one without sizes does there
                        made.attributes.pop("num_outputs", None)
            return found

        def new_initializer(self, node: "ir.Node", array: "np.ndarray[Any, Any]") -> "ir.Value | None":
            if node.outputs[0].is_graph_output() and not array.size:
                # OpenVINO loses the dimensions of a weight that is an output and has none in one of them.
                return None
            return super().new_initializer(node, array)  # type: ignore[no-any-return, unused-ignore]

    sweep = Sweep(
        shape_inference=True, input_size_limit=8192, output_size_limit=limit // 4, should_fold=should_fold
    )
    return bool(sweep(model).modified)


def _should_fold(node: "ir.Node", budget: Budget, notes: Notes) -> bool | None:
    if is_random(node) or _holds_text(node) or _disagreed(node):
        return False
    if is_op(node, "ConstantOfShape"):
        filled = constant(node.inputs[0])
        # As empty weights, see below.
        return None if filled is None else 0 < math.prod(filled.tolist()) <= SMALL_ELEMENTS
    if is_op(node, *PRESERVED):
        return None
    if is_op(node, *MISCOMPUTED) and not _gives_integers(node):
        return False
    if spreads_weights(node) and (_output_bytes(node) or 0) > SMALL_BYTES:
        return False
    added, freed = _output_bytes(node), 0
    for value in node.inputs:
        if value is not None and value.const_value is not None and len(value.uses()) == 1:
            freed += value.const_value.nbytes
    if added is None:
        return None
    grows = max(0, added - freed)
    if added > max(budget.one_bytes, freed) or grows > budget.left_bytes:
        notes.refuse(f"the result would add {units.size(grows)} to the model", label(node))
        return False
    budget.left_bytes -= grows
    return True


def _holds_text(node: "ir.Node") -> bool:
    """Nobody computes with text, and onnx-ir cannot say how many bytes it takes."""
    import onnx_ir as ir

    return any(value is not None and value.dtype == ir.DataType.STRING for value in (*node.inputs, *node.outputs))


def _disagreed(node: "ir.Node") -> bool:
    """Where onnx's reference computes otherwise than ONNX Runtime does, which is not always the one that errs.

    When aligning corners the reference takes sizes before rounding; by no axes ONNX Runtime squeezes all.
    """
    if is_op(node, "Squeeze"):
        return squeezes_by_no_axes(node)
    return is_op(node, "Resize", "MaxUnpool")


def _gives_integers(node: "ir.Node") -> bool:
    dtype = node.outputs[0].dtype
    return dtype is not None and dtype.is_integer()


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
        notes.did(f"removed {plural(len(folded), 'node')} with known or unused results", *folded)
    if lifted:
        notes.did(f"made weights of {plural(len(lifted), 'Constant node')}", *lifted)
    for node in left:
        if is_op(node, "If") and constant(node.inputs[0]) is None:
            notes.refuse("the condition of the If is known only at run time", label(node))


# onnx's reference computes them, and rounds otherwise than a runtime would.
PASS = Pass("fold-constants", "results that depend only on constants are computed once", apply, tolerance_db=100.0)
