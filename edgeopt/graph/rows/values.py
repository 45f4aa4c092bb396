"""Records of the analysis of rows: a tensor, and the call of an operator."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NoReturn

from edgeopt.graph.nodes import constant
from edgeopt.graph.shapes.sizes import Elements, Size, Sum, multiply, shape_of

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir
    from numpy.typing import NDArray

ROWS = "edgeopt_rows"
"""Name of the first dimension of all inputs."""
ROW_COUNT: Size = Sum((((ROWS,), 1),))


def of_rows(size: Size) -> bool:
    return isinstance(size, Sum) and any(ROWS in names for names, _ in size.terms)


def product(sizes: Iterable[Size]) -> Size:
    found: Size = 1
    for each in sizes:
        found = multiply(found, each)
    return found


class UndecidedError(Exception):
    """A rule found rows that mix, or cannot tell."""

    def __init__(self, rows: Literal["mixed", "unknown"], reason: str) -> None:
        super().__init__(reason)
        self.rows = rows


def mixes(reason: str) -> NoReturn:
    raise UndecidedError("mixed", reason)


def unclear(reason: str) -> NoReturn:
    raise UndecidedError("unknown", reason)


@dataclass(frozen=True, slots=True)
class RowTensor:
    """A tensor whose axis `axis` holds the rows, in their order; or one that is the same for all rows."""

    axis: int | None
    dims: tuple[Size, ...] | None
    """The sizes; None if the rank is unknown. Only the axis of the rows may depend on their number."""
    counts_rows: bool = False
    """Whether its values depend on how many rows there are."""
    numbering: Literal["", "number", "index", "derived"] = ""
    """`number`: each row holds its own place in the batch; `index`: an index of GatherND that begins with it;
    `derived`: something else that was computed of it, whose shape alone may be used."""


UNKNOWN = RowTensor(None, None)


@dataclass(frozen=True, slots=True)
class OperatorCall:
    node: "ir.Node"
    inputs: tuple[RowTensor | None, ...]
    tensors: tuple[RowTensor, ...]
    """The inputs that may have rows; the others are the same for all rows."""
    opset: int
    sizes: "Mapping[ir.Value, Elements]"
    """The values of scalars and vectors that shapes are computed with."""
    arrays: "Mapping[ir.Value, NDArray[np.generic]]"
    """Small values that are the same in every run."""

    @property
    def x(self) -> RowTensor:
        return self.need(0)

    def need(self, place: int) -> RowTensor:
        found = self.get(place)
        if found is None:
            unclear(f"its input {place} is missing")
        return found

    def get(self, place: int) -> RowTensor | None:
        return self.inputs[place] if place < len(self.inputs) else None

    def result(self, axis: int | None, rows: Size = None, place: int = 0) -> RowTensor:
        """Returns an output with its inferred sizes; `rows`, unless given, is what the first input with rows
        has."""
        dims = shape_of(self.node.outputs[place])
        if dims is None:
            return RowTensor(axis, None)
        if axis is not None:
            if not axis < len(dims):
                unclear("its sizes contradict each other")
            rows = rows or next(row_size(each) for each in self.tensors if each.axis is not None)
            dims = resized(dims, axis, rows)
        if any(of_rows(each) for place, each in enumerate(dims) if place != axis):
            unclear("it gives the batch's size to what is no row")
        return RowTensor(axis, dims)

    def sized(self, axis: int | None, dims: tuple[Size, ...]) -> RowTensor:
        """Returns the first output with these sizes; unknown ones are as inferred."""
        value = self.node.outputs[0]
        inferred = shape_of(value)
        if inferred is None or len(inferred) != len(dims):
            inferred = tuple(Sum((((f"{id(value)}:{place}",), 1),)) for place in range(len(dims)))
        return RowTensor(axis, tuple(b if a is None else a for a, b in zip(dims, inferred, strict=True)))

    def results(self, axis: int | None) -> list[RowTensor]:
        return [self.result(axis, place=place) for place in range(len(self.node.outputs))]

    def has_attribute(self, name: str) -> bool:
        return name in self.node.attributes and not self.node.attributes[name].is_ref()

    def integer(self, name: str, default: int) -> int:
        return self.node.attributes[name].as_int() if self.has_attribute(name) else default

    def axis(self, default: int, rank: int) -> int:
        return normal(self.integer("axis", default), rank)

    def text(self, name: str, default: str) -> str:
        return self.node.attributes[name].as_string() if self.has_attribute(name) else default

    def integers(self, name: str) -> tuple[int, ...] | None:
        return tuple(self.node.attributes[name].as_ints()) if self.has_attribute(name) else None

    def value(self, place: int) -> tuple[Size, ...] | None:
        """Returns the elements of an input that shapes are computed with, else None."""
        source = self.node.inputs[place] if place < len(self.node.inputs) else None
        found = None if source is None else self.sizes.get(source)
        return None if found is None else found.elements

    def array(self, place: int) -> "NDArray[np.generic] | None":
        """Returns an input that is small and the same in every run, else None."""
        source = self.node.inputs[place] if place < len(self.node.inputs) else None
        found = None if source is None else self.arrays.get(source)
        return constant(source) if found is None else found

    def numbers(self, name: str, place: int) -> tuple[int, ...] | None:
        """Integers of an attribute, as old versions have it, or of an input; None where it is computed."""
        if self.get(place) is None:
            return self.integers(name)
        found = [each for each in self.value(place) or (None,) if isinstance(each, int)]
        return tuple(found) if len(found) == len(self.value(place) or (None,)) else None

    def has(self, name: str, place: int) -> bool:
        return name in self.node.attributes or self.get(place) is not None

    def listed(self, name: str, place: int) -> tuple[int, ...] | None:
        """The same; None where neither is given."""
        found = self.numbers(name, place)
        if found is None and self.has(name, place):
            unclear(f"its {name} are computed while it runs")
        return found


def dims_of(tensor: RowTensor) -> tuple[Size, ...]:
    if tensor.dims is None:
        unclear("the rank of an input is unknown")
    return tensor.dims


def resized(dims: tuple[Size, ...], axis: int, to: Size) -> tuple[Size, ...]:
    """The same sizes, but one."""
    return (*dims[:axis], to, *dims[axis + 1 :])


def normal(axis: int, rank: int) -> int:
    return axis + rank if axis < 0 else axis


def row_size(tensor: RowTensor) -> Size:
    """The size of the axis of the rows."""
    assert tensor.axis is not None  # noqa: S101 - the callers looked
    return dims_of(tensor)[tensor.axis]
