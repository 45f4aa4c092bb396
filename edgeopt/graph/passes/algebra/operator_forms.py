"""The same result in the form that runtimes compute fastest.

    x / c                                              =  x * (1 / c)            c constant, and no zero in it
    Reshape(Transpose(Reshape(x, [n, g, k, ...])))     =  Gather(x, order)       channels shuffled between groups

A form is in the table where it was measured to win in one runtime and to lose in none, by
`benchmarks/operator_forms.py`, whose other rows show what does not win. Nodes that runtimes make one operator when
they load (a GELU that is spelled out) stay together.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, constant, is_op, label, parts
from edgeopt.graph.passes.knowledge.linear import FLOATS, new_weight
from edgeopt.graph.passes.knowledge.whole import spelled_out

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class Form:
    """`replace` changes what ends at a node; it tells what is gone, why not, or None for other nodes."""

    what: str
    replace: "Callable[[ir.Graph, ir.Node], list[str] | str | None]"


def apply(model: "ir.Model", context: PassContext) -> PassResult:  # noqa: ARG001 - every pass has this signature
    import onnx_ir as ir

    model, notes = model.clone(), Notes()
    whole = spelled_out(model)
    for part in parts(model):
        if not isinstance(part, ir.Graph):
            continue  # a function can hold no weights
        for node in list(part):
            for form in FORMS if node not in whole else ():
                found = form.replace(part, node)
                if isinstance(found, str):
                    notes.refuse(found, label(node))
                elif found is not None:
                    notes.did(form.what, *found)
                    break
    return notes.result(model)


def _divide(graph: "ir.Graph", node: "ir.Node") -> "list[str] | str | None":
    import onnx_ir as ir

    divisor = constant(node.inputs[1]) if is_op(node, "Div") else None
    if divisor is None or divisor.dtype.name not in FLOATS:
        return None
    with np.errstate(all="ignore"):
        factor = (1.0 / divisor.astype(np.float64)).astype(divisor.dtype)
    if not divisor.all() or not np.isfinite(factor).all() or not factor.all():
        return f"the reciprocal of '{node.inputs[1].name if node.inputs[1] else ''}' is no number of its type"
    gone = label(node)
    result = node.outputs[0]
    weight = new_weight(graph, f"{node.name or result.name}_reciprocal", factor)
    product = ir.node("Mul", [node.inputs[0], weight], name=node.name)
    _take_place(graph, node, product)
    return [gone]


def _shuffle(graph: "ir.Graph", node: "ir.Node") -> "list[str] | str | None":
    import onnx_ir as ir

    middle = _maker(node, "Transpose") if is_op(node, "Reshape") else None
    first = _maker(middle, "Reshape") if middle is not None else None
    if middle is None or first is None or "perm" not in middle.attributes:
        return None
    source, split, result = first.inputs[0], first.outputs[0], node.outputs[0]
    if source is None or source.shape is None or split.shape is None or result.shape is None:
        return None
    rank = len(source.shape)
    order = [0, 2, 1, *range(3, rank + 1)]
    if len(split.shape) != rank + 1 or list(middle.attributes["perm"].as_ints()) != order:
        return None
    channels, groups, each = source.shape[1], split.shape[1], split.shape[2]
    if not (isinstance(channels, int) and isinstance(groups, int) and isinstance(each, int)):
        return None
    if groups * each != channels or list(source.shape) != list(result.shape):
        return None
    sides = list(source.shape)[2:]
    if list(split.shape)[3:] != sides or not all(isinstance(size, int) for size in sides):
        return None  # with all but the batch known, that must be the same too
    for inner in (first, middle):
        if inner.outputs[0].is_graph_output() or len(inner.outputs[0].uses()) > 1:
            return "the channels between the groups are used elsewhere too"
        if inner.graph is not graph:
            return "the shuffle begins outside the subgraph that holds it"
    places = np.arange(channels).reshape(groups, each).T.reshape(-1).astype(np.int64)
    weight = new_weight(graph, f"{node.name or result.name}_order", places)
    gone = [label(each) for each in (first, middle, node)]
    _take_place(graph, node, ir.node("Gather", [source, weight], {"axis": 1}, name=node.name))
    graph.remove([middle, first], safe=True)
    return gone


def _maker(node: "ir.Node | None", kind: str) -> "ir.Node | None":
    value = node.inputs[0] if node is not None else None
    maker = value.producer() if value is not None else None
    return maker if maker is not None and is_op(maker, kind) else None


def _take_place(graph: "ir.Graph", old: "ir.Node", new: "ir.Node") -> None:
    """Puts a node where another is, with its result's name, type and shape."""
    was, now = old.outputs[0], new.outputs[0]
    name, now.shape, now.type = was.name, was.shape, was.type
    graph.insert_before(old, new)
    was.replace_all_uses_with(now, replace_graph_outputs=True)
    graph.remove(old, safe=True)
    was.name, now.name = f"{name}__replaced", name


FORMS = (
    Form("multiplied by the reciprocal instead of dividing by a constant", _divide),
    Form("shuffled channels by one Gather", _shuffle),
)

PASS = Pass(
    "operator-forms",
    "operators in the form that runtimes compute fastest",
    apply,
    tolerance_db=100.0,
)
