"""Intermediate values: a model that returns more of its values."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir


def with_outputs(model: "ir.Model", names: Sequence[str]) -> "ir.Model":
    """A copy whose outputs are these values of the main graph alone; the weights are shared."""
    copy = model.clone()
    values = values_by_name(copy)
    copy.graph.outputs.clear()
    for name in names:
        values[name].shape = None  # the runtime infers its shape itself
        copy.graph.outputs.append(values[name])
    _without_unused(copy)
    return copy


def with_float_outputs(model: "ir.Model") -> "ir.Model":
    """A copy that returns every floating-point value of the main graph."""
    from edgeopt.graph.nodes import quiet
    from edgeopt.graph.shapes import infer_shapes

    typed = model.clone()
    with quiet():
        infer_shapes(typed)
    values = [value for node in typed.graph for value in node.outputs]
    floats = [value for value in values if value.dtype is not None and value.dtype.is_floating_point()]
    return with_outputs(typed, [str(value.name) for value in floats if value.name])


def values_by_name(model: "ir.Model") -> "dict[str, ir.Value]":
    """The values that the nodes of the main graph make."""
    return {str(v.name): v for node in model.graph for v in node.outputs if v.name}


def _without_unused(model: "ir.Model") -> None:
    from onnx_ir.passes import common

    from edgeopt.graph.nodes import quiet

    with quiet():
        common.RemoveUnusedNodesPass()(model)
