"""Takes away arithmetic on shapes whose result is known, or can be written without it.

Exporters compute the shape of a Reshape from other tensors' shapes, node by node. Where every dimension that
enters is known, so is the result. Where one is open, much of the arithmetic still goes away:

    Reshape(x, [batch, 12, 64])   = Reshape(x, [0, 12, 64])    the dimension at that place of x
    Reshape(x, [batch * 12, 64])  = Reshape(x, [-1, 64])       one is left, and the others fix it
    Expand(x, [batch, 12, 64])    = Expand(x, [1, 12, 64])     x has this dimension already
    Slice(x, 0, batch, axis 0)    = Slice(x, 0, all, axis 0)
"""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, constant, is_op, label, plural
from edgeopt.graph.passes.knowledge.sizes import RULES, Elements, Size, follow, shape_of, sizes_of

if TYPE_CHECKING:
    import onnx_ir as ir

INT64_MAX = 2**63 - 1


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Follows sizes through all graphs, in the order in which they are computed."""
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
    """Lets those who read a value read a weight; not where it is an output or does not fit its type."""
    import numpy as np

    if value.is_graph_output():
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
    wanted = _computed(node, 1, known)
    if wanted is None or _allows_zero(node):
        return
    before = shape_of(node.inputs[0]) or ()
    target: list[int] = []
    for place, size in enumerate(wanted):
        same = place < len(before) and size is not None and size == before[place]
        target.append(size if isinstance(size, int) else 0 if same else -1)
    if target.count(-1) > 1:
        open_sizes = sum(not isinstance(size, int) for size in wanted)
        notes.refuse(
            f"{plural(open_sizes, 'dimension')} of the new shape {'is' if open_sizes == 1 else 'are'} "
            "known only at run time; fix the shapes of the inputs to know it",
            label(node),
        )
        return
    # Where the dimension copied is 0, no runtime can tell the one that is left.
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
    wanted, before = _computed(node, 1, known), shape_of(node.inputs[0])
    if wanted is None or before is None:
        return
    target: list[int] = []
    for place, size in enumerate(reversed(wanted), start=1):
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
    """An end that is the whole dimension needs no number."""
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
    """The sizes at an input that is computed, where their number is known."""
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None or value.producer() is None or constant(value) is not None:
        return None
    if value.producer().op_type not in RULES:
        return None
    found = sizes_of(value, known)
    return None if found is None or found.scalar else found.elements


REWRITES = {"Expand": _expand, "Slice": _slice}

PASS = Pass("fold-shapes", "arithmetic on known shapes is removed", apply, nonempty_only=True)
