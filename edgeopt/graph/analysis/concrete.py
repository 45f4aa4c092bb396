"""A model with numbers for its open dimensions, so that sizes are known."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgeopt.graph.analysis.records import Given
from edgeopt.graph.feeds import input_shape
from edgeopt.graph.shapes import infer_shapes

if TYPE_CHECKING:
    import onnx_ir as ir

GIVEN, SEEN, ASSUMED = "given", "as in the run", "assumed"


@dataclass(frozen=True, slots=True)
class Open:
    """A dimension of an input that the model leaves open, and the size that it gets here."""

    name: str
    """As the model calls it, or `INPUT[AXIS]` where it does not."""
    size: int
    origin: str
    at: tuple[tuple[str, int], ...]
    """The inputs and axes that have it."""


@dataclass(slots=True)
class _Found:
    size: int
    origin: str
    at: list[tuple[str, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Info:
    name: str
    dtype: str
    shape: tuple[int | str | None, ...]


def open_dimensions(model: "ir.Model", given: Given) -> tuple[Open, ...]:
    """What the inputs leave open; one name has one size: what the user gave, else what was seen, else assumed."""
    found: dict[str, _Found] = {}
    for value in model.graph.inputs:
        if value.shape is None or value.is_initializer():
            continue
        name = str(value.name)
        shape = tuple(d if isinstance(d, int) else d.value for d in value.shape)
        for axis, dimension in enumerate(shape):
            if isinstance(dimension, int):
                continue
            called = dimension or f"{name}[{axis}]"
            size, origin = _size(_Info(name, _dtype(value), shape), axis, given)
            known = found.setdefault(called, _Found(size, origin))
            known.at.append((name, axis))
            if known.origin == ASSUMED and origin != ASSUMED:
                known.size, known.origin = size, origin
    return tuple(Open(name, each.size, each.origin, tuple(each.at)) for name, each in found.items())


def _size(info: _Info, axis: int, given: Given) -> tuple[int, str]:
    for shapes, origin in ((given.shapes, GIVEN), (given.real, SEEN)):
        shape = shapes.get(info.name)
        if shape is not None and len(shape) == len(info.shape):
            return int(shape[axis]), origin
    return input_shape(info)[axis], ASSUMED


def _dtype(value: "ir.Value") -> str:
    from edgeopt.graph.analysis.tensors import dtype_of

    return dtype_of(value) or ""


def concrete(model: "ir.Model", given: Given, opened: Iterable[Open]) -> "ir.Model":
    """A clone in which the open dimensions have their sizes and everything behind them follows."""
    clone = model.clone()
    sizes = {place: each.size for each in opened for place in each.at}
    asked = {name for shapes in (given.real, given.shapes) for name in shapes}
    bind(clone.graph.inputs, sizes, {name: given.shapes.get(name) or given.real.get(name, ()) for name in asked})
    _forget_inner(clone)
    # Inference leaves outputs as they are declared; without the declaration it tells their sizes too.
    clone.graph.outputs.clear()
    infer_shapes(clone)
    return clone


def bind(
    inputs: "Iterable[ir.Value]",
    sizes: Mapping[tuple[str, int], int],
    whole: Mapping[str, tuple[int, ...]],
) -> None:
    import onnx_ir as ir

    for value in inputs:
        name = str(value.name)
        if value.shape is None:
            value.shape = ir.Shape(whole[name]) if name in whole else None
            continue
        given = whole.get(name)
        if given is not None and len(given) == len(value.shape):
            value.shape = ir.Shape([int(d) for d in given])
            continue
        value.shape = ir.Shape(
            [d if isinstance(d, int) else sizes[name, axis] for axis, d in enumerate(value.shape)]
        )


def _forget_inner(model: "ir.Model") -> None:
    """Takes away what the file claims of inner values: exporters freeze sizes there that are open in truth.

    Of what goes into a subgraph sizes stay and names go: inference keeps a name where it could tell a size.
    """
    import onnx_ir as ir

    for graph in model.graphs():
        for value in () if graph is model.graph else graph.inputs:
            if value.shape is not None and not value.shape.is_static():
                value.shape = ir.Shape([d if isinstance(d, int) else None for d in value.shape])
        for node in graph:
            for value in node.outputs:
                value.shape = None


def claims(model: "ir.Model") -> dict[str, tuple[int, ...]]:
    """The sizes that a file says of inner values, for those that nothing else tells."""
    return {
        str(value.name): tuple(int(d) for d in value.shape)
        for graph in model.graphs()
        for node in graph
        for value in node.outputs
        if value.shape is not None and value.shape.is_static()
    }
