"""Removal of padding: computes padded sequences only up to the last token that the mask marks.

    mask [batch, length]  ->  Slice(each input that has this length, 0 : n)
                              n = length up to the last 1 of any row's mask, rounded up to a multiple of 16

Tokenizers pad sentences to one length, and a transformer computes the padding like the rest, although attention
gives it no weight and pooling ignores it. Skipping it is correct only if no output has a row for each token and
every layer applies the mask; the graph does not show that, so both models are run on several lengths and
paddings and compared. The pass runs only on request, because its gain depends on the
data: without padding, the runtime cannot plan for one length any more.
"""

from typing import TYPE_CHECKING

import numpy as np

from edgeopt.graph.masks import STEP, is_mask
from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, is_op
from edgeopt.graph.passes.knowledge.linear import new_weight

if TYPE_CHECKING:
    import onnx_ir as ir

_OPSET = 12  # first opset in which ArgMax can select the last of equal values


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    source, model, notes = model, context.copy(model), Notes()
    masks = [value for value in _inputs(model) if is_mask(str(value.name), len(value.shape or ()))]
    if not masks:
        return notes.result(source)
    mask = masks[0]
    if any(is_op(use.node, "Slice") and _is_computed(use.node) for use in mask.uses()):
        return notes.result(source)  # in an earlier round
    reason = _why_not(model, masks)
    if reason is not None:
        notes.refuse(reason, str(mask.name))
        return notes.result(source)
    length = _length(mask)
    assert length is not None  # noqa: S101 - _why_not() has seen to it
    cut = [value for value in _inputs(model) if length in _names(value)]
    _skip(model.graph, mask, cut, length)
    names = ", ".join(str(value.name) for value in cut)
    notes.did(f"skips the end of {names} that '{mask.name}' masks, in steps of {STEP}", str(mask.name))
    return notes.result(model)


def _inputs(model: "ir.Model") -> "list[ir.Value]":
    return [value for value in model.graph.inputs if not value.is_initializer()]


def _why_not(model: "ir.Model", masks: "list[ir.Value]") -> str | None:
    length = _length(masks[0])
    if len(masks) > 1:
        return f"there are several masks: {', '.join(str(value.name) for value in masks)}"
    if length is None:
        return "its length is fixed or has no name; export the model with an open length to skip padding"
    if model.opset_imports.get("", 0) < _OPSET:
        return f"the model has opset {model.opset_imports.get('', 0)}, and this needs {_OPSET}"
    for output in model.graph.outputs:
        if length in _names(output):
            return f"the output '{output.name}' has a row for each position, padded or not"
    return None


def _is_computed(cut: "ir.Node") -> bool:
    end = cut.inputs[2] if len(cut.inputs) > 2 else None
    return end is not None and end.producer() is not None


def _length(mask: "ir.Value") -> str | None:
    """Returns the name of the mask's length dimension, or None."""
    assert mask.shape is not None  # noqa: S101 - a mask has two dimensions
    found = mask.shape[1]
    return None if isinstance(found, int) else found.value


def _names(value: "ir.Value") -> list[str]:
    return [d.value for d in value.shape or () if not isinstance(d, int) and d.value]


def _skip(graph: "ir.Graph", mask: "ir.Value", cut: "list[ir.Value]", length: str) -> None:
    import onnx_ir as ir

    first = graph[0]
    readers = {id(value): list(value.uses()) for value in cut}
    nodes: list[ir.Node] = []

    def add(operator: str, *inputs: "ir.Value", **attributes: int) -> "ir.Value":
        name = f"skip_padding_{len(nodes)}"
        node = ir.node(operator, list(inputs), attributes, name=name)
        node.outputs[0].name = f"{name}_out"
        nodes.append(node)
        return node.outputs[0]

    def number(name: str, value: int) -> "ir.Value":
        return new_weight(graph, f"skip_padding_{name}", np.asarray([value], np.int64))

    step, start = number("step", STEP), number("start", 0)
    held = add("Cast", mask, to=ir.DataType.BOOL.value)
    counted = add("Cast", held, to=ir.DataType.INT32.value)
    # A row of zeros has its maximum, zero, at the end as well: then nothing is skipped.
    last = add("ArgMax", counted, axis=1, keepdims=0, select_last_index=1)
    longest = add("ReduceMax", last, keepdims=1)
    end = add("Mul", add("Div", add("Add", longest, step), step), step)
    known = {1: number("axis_1", 1)}
    for value in cut:
        short = value
        for axis, dimension in enumerate(value.shape or ()):
            if not isinstance(dimension, int) and dimension.value == length:
                if axis not in known:
                    known[axis] = number(f"axis_{axis}", axis)
                short = add("Slice", short, start, end, known[axis])
                short.type = value.type
        for use in readers[id(value)]:
            use.node.replace_input_with(use.idx, short)
    graph.insert_before(first, nodes)
    _rename(graph, length, f"{length}_kept")


def _rename(graph: "ir.Graph", old: str, new: str) -> None:
    """Renames the length dimension inside, as runtimes would reuse memory of the wrong size under one name."""
    import onnx_ir as ir

    for part in (graph, *graph.subgraphs()):
        for node in part:
            for value in node.outputs:
                if value.shape is not None and old in _names(value):
                    value.shape = ir.Shape(
                        [d if isinstance(d, int) or d.value != old else new for d in value.shape]
                    )


PASS = Pass(
    "skip-padding",
    "masked positions at the end of a sequence are not computed",
    apply,
    tolerance_db=100.0,
    on_request=True,
    lowest_opset=_OPSET,
)
