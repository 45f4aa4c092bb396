"""The dimensions that a model leaves open: what they are called, what sets them, how many tensors have them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from edgeopt.graph.analysis.concrete import Open
from edgeopt.graph.analysis.records import Dimension
from edgeopt.graph.shapes import infer_shapes

if TYPE_CHECKING:
    import onnx_ir as ir

_MOST = 100


def dimensions(
    model: "ir.Model",
    opened: Iterable[Open],
    sizes: "Mapping[ir.Value, tuple[int, ...]]",
    real: Mapping[str, tuple[int, ...]],
) -> tuple[Dimension, ...]:
    """Those of the inputs first, then those that data makes while the model runs.

    What follows from the inputs' sizes by arithmetic is none of its own, though inference gives it a name.
    """
    named, called_by_model = named_model(model)
    counts: Counter[str] = Counter()
    made: dict[str, tuple[str, int | None, str]] = {}
    known = {each.name for each in opened}
    for node, original in zip(_all_nodes(named.graph), _all_nodes(model.graph), strict=True):
        given = {name for value in node.inputs if value is not None for name in _names(value)}
        nameless = any(_is_open(value) for value in node.inputs if value is not None)
        for value, own in zip(node.outputs, original.outputs, strict=True):
            names = list(_names(value))
            counts.update(set(names))
            shape = sizes.get(own)
            for axis, dimension in enumerate(value.shape or ()):
                name = None if isinstance(dimension, int) else dimension.value
                if isinstance(dimension, int) or name in known | given or (name is None and nameless):
                    continue
                size = shape[axis] if shape is not None and axis < len(shape) else None
                if size is None or value.name in real:
                    # Under the name that inference made up, until it is shown.
                    made.setdefault(name or f"{value.name}[{axis}]", (_label(node), size, f"{value.name}[{axis}]"))
    rows = [
        Dimension(
            each.name,
            each.size,
            tuple(f"input '{name}', axis {axis}" for name, axis in each.at),
            counts[each.name],
        )
        for each in opened
    ]
    rows += [
        Dimension(called_by_model.get(name) or _shown(name, place), size, (by,), max(1, counts[name]))
        for name, (by, size, place) in made.items()
    ]
    return tuple(rows[:_MOST])


def named_model(model: "ir.Model") -> "tuple[ir.Model, dict[str, str]]":
    """The model with names for the nameless dimensions of its inputs, and outputs that have those that follow.

    And how the model itself calls what inference gave a name to, where an output declares one.
    """
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
                value.shape = None  # inference made names up where the inputs had none
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
    from edgeopt.graph.nodes import subgraphs

    for node in graph:
        yield node
        for _, inner in subgraphs(node):
            yield from _all_nodes(inner)


def _shown(name: str, place: str) -> str:
    return place if name.startswith("unk__") else name


def _label(node: "ir.Node") -> str:
    return f"{node.op_type} '{node.name or (node.outputs[0].name if node.outputs else '')}'"
