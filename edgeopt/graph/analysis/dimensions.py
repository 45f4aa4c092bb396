"""Open dimensions of a model: their sizes, what sets them, and how many tensors have them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgeopt.graph.analysis.records import AnalysisOptions, OpenDimension
from edgeopt.graph.analysis.tensors import dtype_of
from edgeopt.graph.feeds import input_shape
from edgeopt.graph.nodes import label, subgraphs
from edgeopt.graph.shapes.infer import infer_shapes

if TYPE_CHECKING:
    import onnx_ir as ir

GIVEN, SEEN, ASSUMED = "given", "as in the run", "assumed"


@dataclass(frozen=True, slots=True)
class OpenSizes:
    """An open dimension of the inputs, and the size that the analysis assumes."""

    name: str
    """Name in the model, or `INPUT[AXIS]` if it has none."""
    size: int
    origin: str
    at: tuple[tuple[str, int], ...]
    """Inputs and axes with this dimension."""


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


def open_dimensions(model: "ir.Model", options: AnalysisOptions) -> tuple[OpenSizes, ...]:
    """Lists the open dimensions of the inputs with one size per name: given by the user, observed, or assumed."""
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
            size, origin = _size(_Info(name, dtype_of(value) or "", shape), axis, options)
            known = found.setdefault(called, _Found(size, origin))
            known.at.append((name, axis))
            if known.origin == ASSUMED and origin != ASSUMED:
                known.size, known.origin = size, origin
    return tuple(OpenSizes(name, each.size, each.origin, tuple(each.at)) for name, each in found.items())


def _size(info: _Info, axis: int, options: AnalysisOptions) -> tuple[int, str]:
    for shapes, origin in ((options.shapes, GIVEN), (options.real, SEEN)):
        shape = shapes.get(info.name)
        if shape is not None and len(shape) == len(info.shape):
            return int(shape[axis]), origin
    return input_shape(info)[axis], ASSUMED


def concrete(model: "ir.Model", options: AnalysisOptions, opened: Iterable[OpenSizes]) -> "ir.Model":
    """Returns a clone in which the open dimensions have their sizes and all shapes are inferred from them."""
    clone = model.clone()
    sizes = {place: each.size for each in opened for place in each.at}
    names = {name for shapes in (options.real, options.shapes) for name in shapes}
    bind(
        clone.graph.inputs, sizes, {name: options.shapes.get(name) or options.real.get(name, ()) for name in names}
    )
    _forget_inner(clone)
    # Inference keeps declared output shapes; without a declaration it computes them.
    clone.graph.outputs.clear()
    infer_shapes(clone)
    return clone


def bind(
    inputs: "Iterable[ir.Value]", sizes: Mapping[tuple[str, int], int], whole: Mapping[str, tuple[int, ...]]
) -> None:
    import onnx_ir as ir

    for value in inputs:
        name = str(value.name)
        if value.shape is None:
            value.shape = ir.Shape(whole[name]) if name in whole else None
            continue
        fixed = whole.get(name)
        if fixed is not None and len(fixed) == len(value.shape):
            value.shape = ir.Shape([int(d) for d in fixed])
            continue
        value.shape = ir.Shape(
            [d if isinstance(d, int) else sizes[name, axis] for axis, d in enumerate(value.shape)]
        )


def _forget_inner(model: "ir.Model") -> None:
    """Drops the shapes that the file states for inner values, as exporters freeze sizes there that are open.

    Values passed into a subgraph keep sizes and lose names, because inference keeps a name even if it could
    compute a size.
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
    """Returns the shapes that a file states for inner values, as a fallback if nothing else determines them."""
    return {
        str(value.name): tuple(int(d) for d in value.shape)
        for graph in model.graphs()
        for node in graph
        for value in node.outputs
        if value.shape is not None and value.shape.is_static()
    }


_MAX = 100


def dimensions(
    model: "ir.Model",
    opened: Iterable[OpenSizes],
    sizes: "Mapping[ir.Value, tuple[int, ...]]",
    real: Mapping[str, tuple[int, ...]],
) -> tuple[OpenDimension, ...]:
    """Lists the open dimensions of the inputs, then the data-dependent ones that arise while the model runs.

    A dimension that shape arithmetic derives from the input sizes is not listed, even if inference names it.
    """
    named, called_by_model = named_model(model)
    counts: Counter[str] = Counter()
    made: dict[str, tuple[str, int | None, str]] = {}
    known = {each.name for each in opened}
    for node, original in zip(_all_nodes(named.graph), _all_nodes(model.graph), strict=True):
        input_names = {name for value in node.inputs if value is not None for name in _names(value)}
        nameless = any(_is_open(value) for value in node.inputs if value is not None)
        for value, own in zip(node.outputs, original.outputs, strict=True):
            names = list(_names(value))
            counts.update(set(names))
            shape = sizes.get(own)
            for axis, dimension in enumerate(value.shape or ()):
                name = None if isinstance(dimension, int) else dimension.value
                if isinstance(dimension, int) or name in known | input_names or (name is None and nameless):
                    continue
                size = shape[axis] if shape is not None and axis < len(shape) else None
                if size is None or value.name in real:
                    # Stored under the generated name until it is shown.
                    made.setdefault(name or f"{value.name}[{axis}]", (label(node), size, f"{value.name}[{axis}]"))
    rows = [
        OpenDimension(
            each.name,
            each.size,
            tuple(f"input '{name}', axis {axis}" for name, axis in each.at),
            counts[each.name],
        )
        for each in opened
    ]
    rows += [
        OpenDimension(called_by_model.get(name) or _shown(name, place), size, (by,), max(1, counts[name]))
        for name, (by, size, place) in made.items()
    ]
    return tuple(rows[:_MAX])


def named_model(model: "ir.Model") -> "tuple[ir.Model, dict[str, str]]":
    """Returns a model with names for all open input dimensions, and the declared names of inferred ones."""
    import onnx_ir as ir

    own = {name for value in model.graph.inputs for name in _names(value)}
    if not any(_is_open(value) for value in model.graph.inputs) and not any(
        _is_open(value) or set(_names(value)) - own for value in model.graph.outputs
    ):
        return model, {}
    clone = model.clone()
    for value in clone.graph.inputs:
        if value.shape is not None and _is_open(value):
            value.shape = ir.Shape(
                [f"{value.name}[{axis}]" if _nameless(d) else d for axis, d in enumerate(value.shape)]
            )
    outputs = tuple(clone.graph.outputs)
    clone.graph.outputs.clear()
    for graph in clone.graphs():
        for value in (output for node in graph for output in node.outputs):
            if value.shape is not None and not value.shape.is_static():
                value.shape = None  # inference generated names for unnamed inputs
    infer_shapes(clone)
    called: dict[str, str] = {}
    for value, declared in zip(outputs, model.graph.outputs, strict=True):
        for new, old in zip(value.shape or (), declared.shape or (), strict=False):
            if isinstance(new, int) or isinstance(old, int) or new.value is None or old.value is None:
                continue
            if new.value not in own and "[" not in new.value:
                called.setdefault(new.value, old.value)
    return clone, called


def _is_open(value: "ir.Value") -> bool:
    return value.shape is None or any(_nameless(d) for d in value.shape)


def _nameless(dimension: "int | ir.SymbolicDim") -> bool:
    return not isinstance(dimension, int) and dimension.value is None


def _names(value: "ir.Value") -> Iterator[str]:
    for dimension in value.shape or ():
        if not isinstance(dimension, int) and dimension.value is not None:
            yield str(dimension.value)


def _all_nodes(graph: "ir.Graph") -> "Iterator[ir.Node]":
    for node in graph:
        yield node
        for _, inner in subgraphs(node):
            yield from _all_nodes(inner)


def _shown(name: str, place: str) -> str:
    return place if name.startswith("unk__") else name
