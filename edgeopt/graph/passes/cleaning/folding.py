"""Constant folding: computes nodes over constants, and shapes that follow from known sizes, ahead of time."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgeopt import units
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
from edgeopt.graph.shapes.corrections import squeezes_by_no_axes
from edgeopt.graph.shapes.sizes import RULES, Elements, Size, follow, shape_of, sizes_of

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir

INT64_MAX = 2**63 - 1


def fold_shapes(model: "ir.Model", context: PassContext) -> PassResult:
    """Removes arithmetic on shapes whose result is known, or can be written without it.

    Exporters compute the shape of a Reshape from other tensors' shapes, node by node. If all dimensions used are
    known, so is the result. If some are open, much of the arithmetic can still be removed:

        Reshape(x, [batch, 12, 64])   = Reshape(x, [0, 12, 64])    the dimension at that place of x
        Reshape(x, [batch * 12, 64])  = Reshape(x, [-1, 64])       one is left, and the others fix it
        Expand(x, [batch, 12, 64])    = Expand(x, [1, 12, 64])     x has this dimension already
        Slice(x, 0, batch, axis 0)    = Slice(x, 0, all, axis 0)
    """
    from onnx_ir.passes import common

    model, notes = context.copy(model), Notes()
    known: dict[ir.Value, Elements] = {}
    folded: list[str] = []
    for graph in model.graphs():
        for node in list(graph):
            found = follow(node, known)
            if found is not None:
                known[node.outputs[0]] = found
                if found.known and _put_constant(graph, node.outputs[0], found):
                    folded.append(label(node))
                    graph.remove(node, safe=True)
            elif is_op(node, "Reshape"):
                _reshape(graph, node, known, notes, empty_inputs=context.empty_inputs)
            elif rewrite := REWRITES.get(node.op_type) if is_op(node, node.op_type) else None:
                rewrite(graph, node, known, notes)
    if folded:
        notes.did(f"computed {plural(len(folded), 'size')} that follow from known dimensions", *folded)
    if notes.applied:
        before = {node: label(node) for graph in model.graphs() for node in graph}
        common.RemoveUnusedNodesPass()(model)
        left = {node for graph in model.graphs() for node in graph}
        if gone := [name for node, name in before.items() if node not in left]:
            notes.did(f"removed {plural(len(gone), 'node')} that only computed shapes", *gone)
    return notes.result(model)


def _put_constant(graph: "ir.Graph", value: "ir.Value", found: Elements) -> bool:
    """Replaces a value by a weight unless it is an output or its type cannot hold the numbers; returns whether."""
    import numpy as np

    if value.is_graph_output() or not (found.elements or _are_sizes(value)):
        return False
    kind = np.int64 if value.dtype is None else value.dtype.numpy()
    try:
        array = np.array(found.elements, dtype=kind)
    except OverflowError:
        return False
    new = _weight(graph, f"{value.name}__known", array.reshape(()) if found.scalar else array)
    value.replace_all_uses_with(new)
    return True


def _weight(graph: "ir.Graph", name: str, array: "object") -> "ir.Value":
    import onnx_ir as ir

    tensor = ir.tensor(array, name=name)
    new = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape), const_value=tensor)
    graph.register_initializer(new)
    return new


def _constant_input(graph: "ir.Graph", node: "ir.Node", index: int, elements: list[int]) -> None:
    import numpy as np

    kind = node.inputs[index].dtype.numpy()
    array = np.clip(elements, np.iinfo(kind).min, np.iinfo(kind).max).astype(kind)
    node.replace_input_with(index, _weight(graph, f"{node.outputs[0].name}__sizes{index}", array))


def _reshape(
    graph: "ir.Graph", node: "ir.Node", known: "dict[ir.Value, Elements]", notes: Notes, *, empty_inputs: bool
) -> None:
    computed = _computed(node, 1, known)
    if computed is None or _allows_zero(node):
        return
    before = shape_of(node.inputs[0]) or ()
    target: list[int] = []
    for place, size in enumerate(computed):
        same = place < len(before) and size is not None and size == before[place]
        target.append(size if isinstance(size, int) else 0 if same else -1)
    if target.count(-1) > 1:
        open_sizes = sum(not isinstance(size, int) for size in computed)
        notes.refuse(
            f"{plural(open_sizes, 'dimension')} of the new shape {'is' if open_sizes == 1 else 'are'} "
            "known only at run time; fix the shapes of the inputs to know it",
            label(node),
        )
        return
    # If the copied dimension is 0, no runtime can infer the remaining one.
    is_ambiguous = -1 in target and 0 in target
    if is_ambiguous and empty_inputs:
        notes.refuse("the new shape is ambiguous if one of its dimensions is 0", label(node))
        return
    notes.nonempty_only |= is_ambiguous
    _constant_input(graph, node, 1, target)
    notes.did("wrote shapes with open dimensions without arithmetic", label(node))


def _allows_zero(node: "ir.Node") -> bool:
    attribute = node.attributes.get("allowzero")
    return attribute is not None and (attribute.is_ref() or bool(attribute.as_int()))


def _expand(graph: "ir.Graph", node: "ir.Node", known: "dict[ir.Value, Elements]", notes: Notes) -> None:
    computed, before = _computed(node, 1, known), shape_of(node.inputs[0])
    if computed is None or before is None:
        return
    target: list[int] = []
    for place, size in enumerate(reversed(computed), start=1):
        have: Size = before[-place] if place <= len(before) else None
        if isinstance(size, int):
            target.insert(0, size)
        elif size is not None and size == have:
            target.insert(0, 1)
        else:
            return
    _constant_input(graph, node, 1, target)
    notes.did("expanded to shapes without arithmetic", label(node))


def _slice(graph: "ir.Graph", node: "ir.Node", known: "dict[ir.Value, Elements]", notes: Notes) -> None:
    """Replaces the end of a Slice that equals the whole dimension by the maximum."""
    before = shape_of(node.inputs[0])
    ends = _computed(node, 2, known)
    starts = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    if before is None or ends is None or starts is None:
        return
    axes = _numbers(node, 3, list(range(len(ends))))
    steps = _numbers(node, 4, [1] * len(ends))
    if axes is None or steps is None or not len(starts) == len(axes) == len(steps) == len(ends):
        return
    new_ends = []
    for end, axis, step in zip(ends, axes, steps, strict=True):
        if isinstance(end, int):
            new_ends.append(end)
        elif end is not None and step > 0 and end == before[axis]:
            new_ends.append(INT64_MAX)
        else:
            return
    _constant_input(graph, node, 2, new_ends)
    notes.did("sliced to the end without computing it", label(node))


def _numbers(node: "ir.Node", index: int, default: list[int]) -> list[int] | None:
    if index >= len(node.inputs) or node.inputs[index] is None:
        return default
    array = constant(node.inputs[index])
    return None if array is None else [int(number) for number in array.reshape(-1)]


def _computed(node: "ir.Node", index: int, known: "dict[ir.Value, Elements]") -> tuple[Size, ...] | None:
    """Returns the sizes at a computed input, if their number is known."""
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None or value.producer() is None or constant(value) is not None:
        return None
    if value.producer().op_type not in RULES:
        return None
    found = sizes_of(value, known)
    return None if found is None or found.scalar else found.elements


REWRITES = {"Expand": _expand, "Slice": _slice}

FOLD_SHAPES = Pass("fold-shapes", "arithmetic on known shapes is removed", fold_shapes, nonempty_only=True)


ROUNDS = 6
SMALL_ELEMENTS = 16_384  # of a filled tensor: the scales of a normalization may go into the file, weights not
SMALL_BYTES = SMALL_ELEMENTS * 4
# Small in the file and big in memory (the first), or required by quantized kernels.
PRESERVED = ("ConstantOfShape", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")

SPLIT_BY_INPUT, SPLIT_BY_NUMBER = 13, 18
"""First opsets in which Split takes its sizes as an input, and the number of parts as an attribute."""

READ_SIZES = ("Concat", "ConstantOfShape", "Expand", "Reshape", "Slice", "Squeeze", "Tile", "Unsqueeze")

# onnx's reference, which does the folding, is wrong about them (docs/upstream.md).
MISCOMPUTED = ("GlobalMaxPool", "LRN", "LogSoftmax", "LpNormalization", "OneHot")


def fold_constants(model: "ir.Model", context: PassContext) -> PassResult:
    """Computes constants, arithmetic on known shapes, and `If`s with a known condition ahead of time."""
    from onnx_ir.passes import common

    model, notes = context.copy(model), Notes()
    before = {node: label(node) for node in nodes_of(model)}
    limit = context.folded_limit_bytes
    budget = FoldingBudget(limit, max(limit, _weight_bytes(model)))
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
    """Replaces a non-saturating CastLike by such a Cast, because onnxscript folds it to a saturating one."""
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
class FoldingBudget:
    """Limits on the bytes that folding adds to the model: by one result, and by all further results."""

    one_bytes: int
    left_bytes: int


def _weight_bytes(model: "ir.Model") -> int:
    import onnx_ir as ir

    weights = [weight for graph in model.graphs() for weight in graph.initializers.values()]
    held = [weight.const_value for weight in weights if weight.const_value is not None]
    return sum(tensor.nbytes for tensor in held if tensor.dtype != ir.DataType.STRING)


def _fold(model: "ir.Model", limit: int, should_fold: "Callable[[ir.Node], bool | None]") -> bool:
    """Runs onnxscript's folding once; a node that it cannot handle stays."""
    from onnxscript.optimizer._constant_folding import FoldConstantsPass

    class Sweep(FoldConstantsPass):  # type: ignore[misc, unused-ignore]
        def process_node(self, node: "ir.Node", is_function: bool) -> object:
            if is_op(node, "SplitToSequence") and self._opset_imports.get("", 1) < SPLIT_BY_INPUT:
                return None
            try:
                found = super().process_node(node, is_function)
            except RuntimeError:  # raised if one operator cannot be folded, for any reason
                return None
            if (
                found is not None
                and any(map(_is_empty_constant, found.new_nodes))
                and not _are_sizes(node.outputs[0])
            ):
                return None
            if found is not None and self._opset_imports.get("", 1) < SPLIT_BY_NUMBER:
                for made in found.new_nodes:
                    if is_op(made, "Split"):  # into equal parts, the default in these opsets
                        made.attributes.pop("num_outputs", None)
            return found

        def new_initializer(self, node: "ir.Node", array: "np.ndarray[Any, Any]") -> "ir.Value | None":
            if not array.size and not _are_sizes(node.outputs[0]):
                # OpenVINO reads a weight without elements in a wrong shape, such as a scalar.
                return None
            return super().new_initializer(node, array)  # type: ignore[no-any-return, unused-ignore]

    sweep = Sweep(
        shape_inference=True, input_size_limit=8192, output_size_limit=limit // 4, should_fold=should_fold
    )
    return bool(sweep(model).modified)


def _is_empty_constant(node: "ir.Node") -> bool:
    array = constant(node.outputs[0]) if is_op(node, "Constant") else None
    return array is not None and not array.size


def _are_sizes(value: "ir.Value") -> bool:
    """Whether all readers of a value interpret it as sizes; a list of sizes may be empty."""
    users = [use.node for use in value.uses()]
    return not value.is_graph_output() and all(is_op(user, *READ_SIZES) for user in users)


def _should_fold(node: "ir.Node", budget: FoldingBudget, notes: Notes) -> bool | None:
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
    """Whether a node handles text, which is not folded: onnx-ir does not know its size."""
    import onnx_ir as ir

    return any(value is not None and value.dtype == ir.DataType.STRING for value in (*node.inputs, *node.outputs))


def _disagreed(node: "ir.Node") -> bool:
    """Whether onnx's reference evaluator and ONNX Runtime compute a node differently; either may be wrong.

    With aligned corners, the reference scales by the sizes before rounding. A Squeeze with an empty list of axes
    removes all dimensions of size 1 in ONNX Runtime.
    """
    if is_op(node, "Squeeze"):
        return squeezes_by_no_axes(node)
    return is_op(node, "Resize", "MaxUnpool")


def _gives_integers(node: "ir.Node") -> bool:
    dtype = node.outputs[0].dtype
    return dtype is not None and dtype.is_integer()


def _output_bytes(node: "ir.Node") -> int | None:
    """Returns the size of all results; None if shape inference does not know it."""
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


# onnx's reference evaluator computes them and rounds differently than a runtime.
FOLD_CONSTANTS = Pass(
    "fold-constants", "results that depend only on constants are computed once", fold_constants, tolerance_db=100.0
)
