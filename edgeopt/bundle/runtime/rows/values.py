"""The graph of a model and what the analysis knows of its tensors, read without the onnx package."""

import itertools
import math
import mmap
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal, NoReturn

from edgeopt.backends.protobuf import Span, all_fields, opened, packed_integers, text

_MOST_VALUES = 256
"""Constants with more values than this hold no sizes, axes or bounds."""
_FLOAT, _INT32, _INT64, _BOOL = 1, 6, 7, 9
_FORMATS = {_FLOAT: "f", _INT32: "i", _INT64: "q", _BOOL: "?"}

_Found = dict[int, list[int | bytes | Span]]
ROWS = "rows of the batch"


@dataclass(frozen=True, slots=True)
class ConstantTensor:
    dims: tuple[int, ...]
    values: tuple[Fraction, ...] | None
    """None where there are many, or they are not finite numbers."""


@dataclass(frozen=True, slots=True)
class GraphNode:
    operator: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    """An empty name for an optional input that is left out."""
    outputs: tuple[str, ...]
    attributes: "dict[str, int | str | tuple[int, ...] | ConstantTensor | ModelGraph]"


@dataclass(frozen=True, slots=True)
class ModelGraph:
    nodes: tuple[GraphNode, ...]
    constants: dict[str, ConstantTensor]
    inputs: dict[str, tuple[int | str | None, ...] | None]
    """The shape of each, with sizes and names; None where the rank is unknown."""
    outputs: tuple[str, ...]
    opsets: dict[str, int] = field(default_factory=dict)


def read_graph(path: Path) -> ModelGraph:
    """Raises OSError, ValueError or LookupError for a file that is not a sound model."""
    with opened(path) as data:
        model = _found(data, (0, len(data)))
        opsets = {}
        for entry in _spans(model, 8):
            told = _found(data, entry)
            domain = _text(data, told, 1)
            opsets["" if domain == "ai.onnx" else domain] = _integer(told, 2)
        graph = _graph(data, _spans(model, 7)[0])
        return ModelGraph(graph.nodes, graph.constants, graph.inputs, graph.outputs, opsets)


def _graph(data: mmap.mmap, span: Span) -> ModelGraph:
    told = _found(data, span)
    return ModelGraph(
        tuple(_node(data, each) for each in _spans(told, 1)),
        dict(_tensor(data, each) for each in _spans(told, 5)),
        dict(_port(data, each) for each in _spans(told, 11)),
        tuple(_port(data, each)[0] for each in _spans(told, 12)),
    )


def _node(data: mmap.mmap, span: Span) -> GraphNode:
    told = _found(data, span)
    domain = _text(data, told, 7)
    return GraphNode(
        _text(data, told, 4),
        "" if domain == "ai.onnx" else domain,
        _text(data, told, 3),
        tuple(text(data, each) for each in _spans(told, 1)),
        tuple(text(data, each) for each in _spans(told, 2)),
        dict(_attribute(data, each) for each in _spans(told, 5)),
    )


def _attribute(
    data: mmap.mmap, span: Span
) -> tuple[str, int | str | tuple[int, ...] | ConstantTensor | ModelGraph]:
    told = _found(data, span)
    name, kind = _text(data, told, 1), _integer(told, 20)
    if kind == 2:
        return name, _integer(told, 3)
    if kind == 3:
        (begin, end) = (_spans(told, 4) or [(0, 0)])[-1]
        return name, bytes(data[begin:end]).decode(errors="replace")
    if kind == 4:
        return name, _tensor(data, _spans(told, 5)[0])[1]
    if kind == 5:
        return name, _graph(data, _spans(told, 6)[0])
    if kind == 7:
        return name, _integers(data, told, 8)
    return name, ()


def _tensor(data: mmap.mmap, span: Span) -> tuple[str, ConstantTensor]:
    told = _found(data, span)
    dims, kind = _integers(data, told, 1), _integer(told, 2)
    count = math.prod(dims)
    values: tuple[Fraction, ...] | None = None
    if count <= _MOST_VALUES and kind in _FORMATS and not _integer(told, 14):
        numbers: tuple[float, ...]
        code = _FORMATS[kind]
        if raw := _spans(told, 9):
            numbers = struct.unpack(f"<{count}{code}", data[slice(*raw[0])])
        elif kind == _FLOAT:
            numbers = _floats(data, told.get(4, []))
        else:
            numbers = _integers(data, told, 7 if kind == _INT64 else 5)
        if len(numbers) == count and all(math.isfinite(number) for number in numbers):
            values = tuple(Fraction(number) for number in numbers)
    return _text(data, told, 8), ConstantTensor(dims, values)


def _floats(data: mmap.mmap, found: list[int | bytes | Span]) -> tuple[float, ...]:
    pieces = [bytes(data[slice(*each)]) if isinstance(each, tuple) else each for each in found]
    joined = b"".join(each for each in pieces if isinstance(each, bytes))
    return struct.unpack(f"<{len(joined) // 4}f", joined)


def _port(data: mmap.mmap, span: Span) -> tuple[str, tuple[int | str | None, ...] | None]:
    told = _found(data, span)
    name = _text(data, told, 1)
    for kind in _spans(told, 2):
        for tensor in _spans(_found(data, kind), 1):
            for shape in _spans(_found(data, tensor), 2):
                return name, tuple(_dimension(data, each) for each in _spans(_found(data, shape), 1))
    return name, None


def _dimension(data: mmap.mmap, span: Span) -> int | str | None:
    told = _found(data, span)
    return _integer(told, 1) if 1 in told else _text(data, told, 2) or None


def _found(data: mmap.mmap, span: Span) -> _Found:
    fields: _Found = {}
    for number, value in all_fields(data, span):
        fields.setdefault(number, []).append(value)
    return fields


def _spans(told: _Found, number: int) -> list[Span]:
    return [each for each in told.get(number, []) if isinstance(each, tuple)]


def _text(data: mmap.mmap, told: _Found, number: int) -> str:
    spans = _spans(told, number)
    return text(data, spans[-1]) if spans else ""


def _integer(told: _Found, number: int) -> int:
    found = told.get(number, [0])[-1]
    return found if isinstance(found, int) else 0


def _integers(data: mmap.mmap, told: _Found, number: int) -> tuple[int, ...]:
    """Packed or one by one."""
    found: list[int] = []
    for each in told.get(number, []):
        if isinstance(each, tuple):
            found.extend(packed_integers(data, each))
        elif isinstance(each, int):
            found.append(each)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Size:
    number: Fraction
    names: tuple[str, ...] = ()
    """Sorted; each is a size, never negative, that is the same for all rows."""

    @property
    def of_rows(self) -> bool:
        return ROWS in self.names

    @property
    def constant(self) -> int | None:
        return int(self.number) if not self.names and self.number.denominator == 1 else None

    def __mul__(self, other: "Size") -> "Size":
        return Size(self.number * other.number, tuple(sorted(self.names + other.names)))


def size(number: int | Fraction) -> Size:
    return Size(Fraction(number))


ONE = size(1)
ROW_COUNT = Size(Fraction(1), (ROWS,))


def product(sizes: Iterable[Size]) -> Size:
    found = ONE
    for each in sizes:
        found = found * each
    return found


def divided(one: Size, other: Size) -> tuple[Size, bool]:
    """The quotient, and whether the names of the divisor are all in what it divides."""
    names, whole = list(one.names), True
    for name in other.names:
        if name in names:
            names.remove(name)
        else:
            whole = False
    return Size(one.number / other.number if other.number else Fraction(0), tuple(names)), whole


_fresh = itertools.count()


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
    """None where the rank is unknown. Only the axis of the rows may depend on their number."""
    value: tuple[Size | None, ...] | None = None
    """Of a scalar or a vector that shapes are computed with; None where a number is unknown."""
    counts_rows: bool = False
    """Whether its values depend on how many rows there are."""
    numbering: Literal["", "number", "index", "derived"] = ""
    """`number`: each row holds its own place in the batch; `index`: an index of GatherND that begins with it;
    `derived`: something else that was computed of it, whose shape alone may be used."""

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
    tensors: tuple[RowTensor, ...]
    """The inputs that may have rows; the others are the same for all rows."""
    opset: int

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

    def integer(self, name: str, default: int) -> int:
        found = self.node.attributes.get(name, default)
        return found if isinstance(found, int) else default

    def axis(self, default: int, rank: int) -> int:
        return normal(self.integer("axis", default), rank)

    def text(self, name: str, default: str) -> str:
        found = self.node.attributes.get(name, default)
        return found if isinstance(found, str) else default

    def integers(self, name: str) -> tuple[int, ...] | None:
        found = self.node.attributes.get(name)
        return found if isinstance(found, tuple) else None

    def graph(self, name: str) -> ModelGraph:
        found = self.node.attributes.get(name)
        return found if isinstance(found, ModelGraph) else unclear(f"it has no {name}")

    def numbers(self, name: str, place: int) -> tuple[int, ...] | None:
        """Integers of an attribute, as old versions have it, or of an input; None where it is computed."""
        given = self.get(place)
        return self.integers(name) if given is None else given.numbers

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


def unknown_dims(count: int) -> tuple[Size, ...]:
    return tuple(unknown_size() for _ in range(count))


def resized(dims: tuple[Size, ...], axis: int, to: Size) -> tuple[Size, ...]:
    """The same sizes, but one."""
    return (*dims[:axis], to, *dims[axis + 1 :])


def normal(axis: int, rank: int) -> int:
    return axis + rank if axis < 0 else axis


def row_size(tensor: RowTensor) -> Size:
    """The size of the axis of the rows."""
    assert tensor.axis is not None  # noqa: S101 - the callers looked
    return dims_of(tensor)[tensor.axis]
