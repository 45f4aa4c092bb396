"""Copies of models: for passes to change, and with intermediate values as outputs.

Most passes change nothing in most models, and copying a large graph takes longer than searching it, so a new copy
is made only after a change.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from edgeopt.graph.nodes import parts

if TYPE_CHECKING:
    import onnx_ir as ir


class Copies:
    """A copy of a model that consecutive passes share as long as they leave it unchanged."""

    def __init__(self) -> None:
        self._source: ir.Model | None = None
        self._copy: ir.Model | None = None
        self._content: list[object] = []

    def of(self, model: "ir.Model") -> "ir.Model":
        """Returns a copy for one user at a time: the next call invalidates the previous user's copy."""
        copy = self._copy
        if copy is None or self._source is not model or _content(copy) != self._content:
            copy = model.clone()
            # Stores the objects instead of their ids, which are reused once the objects are freed.
            self._source, self._copy, self._content = model, copy, _content(copy)
        return copy


def _content(model: "ir.Model") -> list[object]:
    """Lists all parts of a model that a pass could change; equal models give lists of the same objects."""
    found: list[object] = [model.ir_version, dict(model.metadata_props), *model.functions.values()]
    for part in parts(model):
        found += (part.name, dict(part.opset_imports), *part.outputs)
        _put_extras(found, part)
        _put_values(found, part.inputs)
        _put_values(found, getattr(part, "initializers", {}).values())
        for node in part:
            found += (node, node.name, node.domain, node.op_type, node.overload, node.version)
            found += node.inputs
            found += node.attributes.values()
            _put_extras(found, node)
            _put_values(found, node.outputs)
    return found


def _put_values(found: list[object], values: "Iterable[ir.Value]") -> None:
    for value in values:
        shape = value.shape
        found += (value, value.name, value.type, value.const_value, shape and tuple(shape))
        _put_extras(found, value)


def _put_extras(found: list[object], owner: "ir.Graph | ir.Function | ir.Node | ir.Value") -> None:
    """Appends the metadata of an object only if it has any; the list of an object that gets some then grows."""
    if owner.metadata_props:
        found.append(dict(owner.metadata_props))
    if owner.meta:
        found.append(dict(owner.meta))


def with_outputs(model: "ir.Model", names: Sequence[str]) -> "ir.Model":
    """Returns a copy whose only outputs are these values of the main graph; it shares the weights."""
    copy = model.clone()
    values = values_by_name(copy)
    copy.graph.outputs.clear()
    for name in names:
        values[name].shape = None  # the runtime infers its shape itself
        copy.graph.outputs.append(values[name])
    _without_unused(copy)
    return copy


def with_float_outputs(model: "ir.Model") -> "ir.Model":
    """Returns a copy that outputs every floating-point value of the main graph."""
    from edgeopt.graph.nodes import quiet
    from edgeopt.graph.shapes.infer import infer_shapes

    typed = model.clone()
    with quiet():
        infer_shapes(typed)
    values = [value for node in typed.graph for value in node.outputs]
    floats = [value for value in values if value.dtype is not None and value.dtype.is_floating_point()]
    return with_outputs(typed, [str(value.name) for value in floats if value.name])


def values_by_name(model: "ir.Model") -> "dict[str, ir.Value]":
    """Returns the results of all nodes of the main graph by name."""
    return {str(v.name): v for node in model.graph for v in node.outputs if v.name}


def _without_unused(model: "ir.Model") -> None:
    from onnx_ir.passes import common

    from edgeopt.graph.nodes import quiet

    with quiet():
        common.RemoveUnusedNodesPass()(model)
