"""Which inputs and outputs of a rewritten model have their dimensions in another order than the source's.

It is noted on the graph while it is rewritten, and goes into no file.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx_ir as ir

Order = tuple[int, ...]
_KEY = "edgeopt.turned"


def turned(model: "ir.Model") -> Mapping[str, Order]:
    """By the name of an input or output: the axis `a` of the model's is the axis `order[a]` of the source's."""
    found: Mapping[str, Order] = model.graph.meta.get(_KEY, {})
    return found


def note_turned(model: "ir.Model", orders: Mapping[str, Order]) -> None:
    model.graph.meta[_KEY] = {**turned(model), **orders}  # a new one: copies of the model share the old


def as_model_takes(sample: Mapping[str, Any], model: "ir.Model") -> dict[str, Any]:
    """A sample of the source's, for this model."""
    orders = turned(model)
    return {
        name: np.ascontiguousarray(np.transpose(array, orders[name])) if name in orders else array
        for name, array in sample.items()
    }


def as_source_gives(outputs: Iterable[Mapping[str, Any]], model: "ir.Model") -> list[dict[str, Any]]:
    """What this model gave, as the source would have."""
    orders = {name: np.argsort(order) for name, order in turned(model).items()}
    return [
        {name: np.transpose(array, orders[name]) if name in orders else array for name, array in given.items()}
        for given in outputs
    ]
