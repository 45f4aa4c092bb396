"""Conditions after every pass: the graph is valid ONNX, and its inputs and outputs are unchanged."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgeopt.errors import error_text
from edgeopt.graph.files.stripped import checkable, skeleton
from edgeopt.graph.shapes.infer import infer_shapes

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = ["Signature", "fault", "infer_shapes", "keep_declared_shapes", "signature", "unsound"]

# protobuf classes carry no types; this is onnx's ModelProto.
Proto = Any


@dataclass(frozen=True, slots=True)
class Signature:
    """Names and types of inputs and outputs in order; weights that are listed as inputs are excluded."""

    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]


def signature(model: "ir.Model") -> Signature:
    return Signature(
        tuple(_described(value) for value in model.graph.inputs if not value.is_initializer()),
        tuple(_described(value) for value in model.graph.outputs),
    )


def _described(value: "ir.Value") -> tuple[str, str]:
    return str(value.name), str(value.type)


def fault(model: "ir.Model", before: Signature) -> str | None:
    """Returns why the model after a pass is not acceptable, as the end of a sentence, or None."""
    after = signature(model)
    for role, old, new in (("input", before.inputs, after.inputs), ("output", before.outputs, after.outputs)):
        if [value[0] for value in old] != [value[0] for value in new]:
            return f"it changed the {role}s from {_names(old)} to {_names(new)}"
        for was, now in zip(old, new, strict=True):
            if was != now:
                return f"it changed the {role} '{was[0]}' from {was[1]} to {now[1]}"
    problem = unsound(checkable(skeleton(model)[0]))
    return f"it left an invalid graph: {problem}" if problem else None


def unsound(proto: Proto) -> str | None:
    """Returns the message of onnx's checker about a model, on one line, or None if the model is valid."""
    import onnx

    try:
        onnx.checker.check_model(proto)
    except Exception as error:  # noqa: BLE001 - besides ValidationError the checker raises what the C++ below it does
        return error_text(error)
    return None


def keep_declared_shapes(before: "ir.Model", after: "ir.Model") -> None:
    """Restores the declared shapes of inputs and outputs, which passes may refine."""
    pairs = ((before.graph.inputs, after.graph.inputs), (before.graph.outputs, after.graph.outputs))
    for old, new in pairs:
        declared = {value.name: value for value in old}
        for value in new:
            if value.name in declared:
                value.shape = declared[value.name].shape


def _names(values: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(value[0] for value in values)


Order = tuple[int, ...]
_KEY = "edgeopt.turned"


def axis_orders(model: "ir.Model") -> Mapping[str, Order]:
    """Returns the axis order of each transposed input or output: axis `a` here is the source's axis `order[a]`."""
    found: Mapping[str, Order] = model.graph.meta.get(_KEY, {})
    return found


def record_axis_orders(model: "ir.Model", orders: Mapping[str, Order]) -> None:
    model.graph.meta[_KEY] = {**axis_orders(model), **orders}  # a new dict: copies share the old one


def as_model_takes(sample: Mapping[str, Any], model: "ir.Model") -> dict[str, Any]:
    """Converts a sample of the source model for this model."""
    import numpy as np

    orders = axis_orders(model)
    return {
        name: np.ascontiguousarray(np.transpose(array, orders[name])) if name in orders else array
        for name, array in sample.items()
    }


def as_source_gives(outputs: Iterable[Mapping[str, Any]], model: "ir.Model") -> list[dict[str, Any]]:
    """Converts outputs of this model to the axis order of the source model."""
    import numpy as np

    orders = {name: np.argsort(order) for name, order in axis_orders(model).items()}
    return [
        {name: np.transpose(array, orders[name]) if name in orders else array for name, array in output.items()}
        for output in outputs
    ]
