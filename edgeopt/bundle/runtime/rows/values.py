"""What the analysis knows of each tensor, and of one operator as a rule sees it."""

import itertools
from dataclasses import dataclass, field
from typing import Literal, NoReturn

from edgeopt.bundle.runtime.rows.graph import ConstantTensor, GraphNode, ModelGraph
from edgeopt.bundle.runtime.rows.sizes import ROWS, Size, size

_fresh = itertools.count()


class UndecidedError(Exception):
    """A rule found rows that mix, or cannot tell."""

    def __init__(self, mixed: bool, reason: str) -> None:
        super().__init__(reason)
        self.mixed = mixed
        self.reason = reason


def mixes(reason: str) -> NoReturn:
    raise UndecidedError(True, reason)


def unclear(reason: str) -> NoReturn:
    raise UndecidedError(False, reason)


@dataclass(frozen=True, slots=True)
class RowTensor:
    """A tensor whose axis `axis` holds the rows, in their order; or one that is the same for all rows."""

    axis: int | None
    dims: tuple[Size, ...] | None
    """None where the rank is unknown. Only the axis of the rows may depend on their number."""
    value: tuple[Size | None, ...] | None = None
    """Of a scalar or a vector that shapes are computed with; None where a number is unknown."""
    counts_rows: bool = False
    """Whether its values depend on how many rows there are."""
    numbering: Literal["", "number", "index", "derived"] = ""
    """`number`: each row holds its own place in the batch; `index`: an index of GatherND that begins with it;
    `derived`: something else that was computed of it, whose shape alone may be used."""

    @property
    def rank(self) -> int | None:
        return None if self.dims is None else len(self.dims)

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """The value, where it is all integers."""
        if self.value is None:
            return None
        found = [None if each is None else each.constant for each in self.value]
        return None if None in found else tuple(each for each in found if each is not None)


UNKNOWN = RowTensor(None, None)


def unknown_size() -> Size:
    """A size that is the same for all rows, with a name of its own."""
    return Size(size(1).number, (f"?{next(_fresh)}",))


def valued(value: tuple[Size | None, ...], dims: tuple[Size, ...], counts_rows: bool = False) -> RowTensor:
    """`counts_rows`: whether an unknown number among them may depend on the number of rows."""
    counts = any(each is not None and each.of_rows for each in value) or (None in value and counts_rows)
    return RowTensor(None, dims, value, counts)


def constant(tensor: ConstantTensor) -> RowTensor:
    dims = tuple(size(each) for each in tensor.dims)
    if tensor.values is None or len(dims) > 1:
        return RowTensor(None, dims)
    return valued(tuple(Size(each) for each in tensor.values), dims)


def with_rows(dims: tuple[Size, ...]) -> RowTensor:
    """A tensor of these sizes; its rows lie where the sizes depend on their number."""
    axes = [axis for axis, each in enumerate(dims) if each.of_rows]
    if len(axes) > 1 or any(each.names.count(ROWS) > 1 for each in dims):
        mixes("it makes a tensor with the rows on two axes")
    return RowTensor(axes[0] if axes else None, dims)


@dataclass(frozen=True, slots=True)
class OperatorCall:
    node: GraphNode
    inputs: tuple[RowTensor | None, ...]
    opset: int
    constants: dict[str, ConstantTensor] = field(repr=False)

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

    @property
    def given(self) -> list[RowTensor]:
        return [each for each in self.inputs if each is not None]

    def integer(self, name: str, default: int) -> int:
        found = self.node.attributes.get(name, default)
        return found if isinstance(found, int) else default

    def text(self, name: str, default: str) -> str:
        found = self.node.attributes.get(name, default)
        return found if isinstance(found, str) else default

    def integers(self, name: str) -> tuple[int, ...] | None:
        found = self.node.attributes.get(name)
        return found if isinstance(found, tuple) else None

    def graph(self, name: str) -> ModelGraph | None:
        found = self.node.attributes.get(name)
        return found if isinstance(found, ModelGraph) else None

    def listed(self, name: str, place: int) -> tuple[int, ...] | None:
        """Integers of an attribute, as old versions have it, or of an input; None where neither is given."""
        found = self.integers(name)
        given = self.get(place)
        if found is not None or given is None:
            return found
        numbers = given.numbers
        if numbers is None:
            unclear(f"its {name} are computed while it runs")
        return numbers

    def only_shared(self, *places: int) -> None:
        """Weights, scales and the like: a value of a single row in their place affects all rows."""
        for place in places:
            given = self.get(place)
            if given is not None and given.axis is not None:
                mixes("its parameters are computed from the rows")
            if given is not None and given.counts_rows:
                mixes("its parameters depend on the number of rows")


def dims_of(tensor: RowTensor) -> tuple[Size, ...]:
    if tensor.dims is None:
        unclear("the rank of an input is unknown")
    return tensor.dims


def normal(axis: int, rank: int) -> int:
    return axis + rank if axis < 0 else axis


def row_size(tensor: RowTensor) -> Size:
    """The size of the axis of the rows."""
    assert tensor.axis is not None  # noqa: S101 - the callers looked
    return dims_of(tensor)[tensor.axis]
