"""The graph of a model and what the analysis knows of its tensors, read without the onnx package."""

import itertools
import math
import mmap
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Literal, NoReturn

from edgeopt.backends.protobuf import Span, all_fields, opened, packed_integers, text

_MAX_VALUES = 256
"""Constants with more values than this hold no sizes, axes or bounds."""
_FLOAT, _INT32, _INT64, _BOOL = 1, 6, 7, 9
_FORMATS = {_FLOAT: "f", _INT32: "i", _INT64: "q", _BOOL: "?"}

Shape = tuple[int | str | None, ...]
ROWS = "rows of the batch"


@dataclass(frozen=True, slots=True)
class ConstantTensor:
    dims: tuple[int, ...]
    values: tuple[Fraction, ...] | None
    """The numbers; None if there are more than `_MAX_VALUES`, or not all are finite."""


@dataclass(frozen=True, slots=True)
class GraphNode:
    operator: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    """An empty name for an optional input that is left out."""
    outputs: tuple[str, ...]
    attributes: "dict[str, Attribute]"


@dataclass(frozen=True, slots=True)
class ModelGraph:
    nodes: tuple[GraphNode, ...]
    constants: dict[str, ConstantTensor]
    inputs: dict[str, Shape | None]
    """The shape of each, with sizes and names; None where the rank is unknown."""
    outputs: tuple[str, ...]
    opsets: dict[str, int] = field(default_factory=dict)


Attribute = int | str | tuple[int, ...] | ConstantTensor | ModelGraph


class _Message:
    """The fields of a protobuf message by their numbers."""

    def __init__(self, data: mmap.mmap, span: Span) -> None:
        self.data = data
        self.fields: dict[int, list[int | bytes | Span]] = {}
        for number, value in all_fields(data, span):
            self.fields.setdefault(number, []).append(value)

    def spans(self, number: int) -> list[Span]:
        return [each for each in self.fields.get(number, []) if isinstance(each, tuple)]

    def inner(self, number: int) -> "list[_Message]":
        return [_Message(self.data, each) for each in self.spans(number)]

    def texts(self, number: int) -> tuple[str, ...]:
        return tuple(text(self.data, each) for each in self.spans(number))

    def text(self, number: int) -> str:
        return (self.texts(number) or ("",))[-1]

    def integers(self, number: int) -> tuple[int, ...]:
        """Returns the integers of a field, packed or one by one."""
        found: list[int] = []
        for each in self.fields.get(number, []):
            if not isinstance(each, bytes):
                found += packed_integers(self.data, each) if isinstance(each, tuple) else [each]
        return tuple(found)

    def integer(self, number: int) -> int:
        return (self.integers(number) or (0,))[-1]

    def content(self, number: int) -> bytes:
        """Returns the content of bytes and fixed-size numbers, one after the other."""
        found = self.fields.get(number, [])
        pieces = (self.data[slice(*each)] if isinstance(each, tuple) else each for each in found)
        return b"".join(each for each in pieces if isinstance(each, bytes))


def read_graph(path: Path) -> ModelGraph:
    """Raises OSError, ValueError or LookupError for a file that is not a sound model."""
    with opened(path) as data:
        model = _Message(data, (0, len(data)))
        opsets = {_domain(each.text(1)): each.integer(2) for each in model.inner(8)}
        return replace(_graph(model.inner(7)[0]), opsets=opsets)


def _graph(message: _Message) -> ModelGraph:
    return ModelGraph(
        tuple(_node(each) for each in message.inner(1)),
        {each.text(8): _tensor(each) for each in message.inner(5)},
        {each.text(1): _shape(each) for each in message.inner(11)},
        tuple(each.text(1) for each in message.inner(12)),
    )


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _node(message: _Message) -> GraphNode:
    attributes = {each.text(1): _attribute(each) for each in message.inner(5)}
    domain, inputs, outputs = _domain(message.text(7)), message.texts(1), message.texts(2)
    return GraphNode(message.text(4), domain, message.text(3), inputs, outputs, attributes)


def _attribute(message: _Message) -> Attribute:
    kind = message.integer(20)
    if kind in (2, 3):
        return message.integer(3) if kind == 2 else message.content(4).decode(errors="replace")
    if kind in (4, 5):
        return _tensor(message.inner(5)[0]) if kind == 4 else _graph(message.inner(6)[0])
    return message.integers(8) if kind == 7 else ()


def _tensor(message: _Message) -> ConstantTensor:
    dims, kind = message.integers(1), message.integer(2)
    count = math.prod(dims)
    if kind not in _FORMATS or count > _MAX_VALUES or message.integer(14):
        return ConstantTensor(dims, None)
    numbers: tuple[float, ...] = ()
    code = f"<{count}{_FORMATS[kind]}"
    if raw := message.content(9) or (message.content(4) if kind == _FLOAT else b""):
        numbers = struct.unpack(code, raw) if len(raw) == struct.calcsize(code) else ()
    elif kind != _FLOAT:
        numbers = message.integers(7 if kind == _INT64 else 5)
    sound = len(numbers) == count and all(math.isfinite(number) for number in numbers)
    return ConstantTensor(dims, tuple(Fraction(number) for number in numbers) if sound else None)


def _shape(message: _Message) -> Shape | None:
    for kind in message.inner(2):
        for tensor in kind.inner(1):
            for shape in tensor.inner(2):
                return tuple(
                    each.integer(1) if 1 in each.fields else each.text(2) or None for each in shape.inner(1)
                )
    return None


@dataclass(frozen=True, slots=True)
class RowSize:
    number: Fraction
    names: tuple[str, ...] = ()
    """Sorted; each is a size, never negative, that is the same for all rows."""

    @property
    def of_rows(self) -> bool:
        return ROWS in self.names

    @property
    def constant(self) -> int | None:
        return int(self.number) if not self.names and self.number.denominator == 1 else None

    def __mul__(self, other: "RowSize") -> "RowSize":
        return RowSize(self.number * other.number, tuple(sorted(self.names + other.names)))


def size(number: int | Fraction) -> RowSize:
    return RowSize(Fraction(number))


ONE = size(1)
ROW_COUNT = RowSize(Fraction(1), (ROWS,))


def product(sizes: Iterable[RowSize]) -> RowSize:
    found = ONE
    for each in sizes:
        found = found * each
    return found


def divided(one: RowSize, other: RowSize) -> tuple[RowSize, bool]:
    """The quotient, and whether the names of the divisor are all in what it divides."""
    names, whole = list(one.names), True
    for name in other.names:
        if name in names:
            names.remove(name)
        else:
            whole = False
    return RowSize(one.number / other.number if other.number else Fraction(0), tuple(names)), whole


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
    dims: tuple[RowSize, ...] | None
    """The sizes; None if the rank is unknown. Only the axis of the rows may depend on their number."""
    value: tuple[RowSize | None, ...] | None = None
    """Value of a scalar or vector that shapes are computed with; None for an unknown number."""
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


def unknown_size() -> RowSize:
    """A size that is the same for all rows, with a name of its own."""
    return RowSize(size(1).number, (f"?{next(_fresh)}",))


def valued(value: tuple[RowSize | None, ...], dims: tuple[RowSize, ...], counts_rows: bool = False) -> RowTensor:
    """`counts_rows`: whether an unknown number among them may depend on the number of rows."""
    counts = any(each is not None and each.of_rows for each in value) or (None in value and counts_rows)
    return RowTensor(None, dims, value, counts)


def constant(tensor: ConstantTensor) -> RowTensor:
    dims = tuple(size(each) for each in tensor.dims)
    if tensor.values is None or len(dims) > 1:
        return RowTensor(None, dims)
    return valued(tuple(RowSize(each) for each in tensor.values), dims)


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
        tensor = self.get(place)
        return self.integers(name) if tensor is None else tensor.numbers

    def has(self, name: str, place: int) -> bool:
        return name in self.node.attributes or self.get(place) is not None

    def listed(self, name: str, place: int) -> tuple[int, ...] | None:
        """The same; None where neither is given."""
        found = self.numbers(name, place)
        if found is None and self.has(name, place):
            unclear(f"its {name} are computed while it runs")
        return found


def dims_of(tensor: RowTensor) -> tuple[RowSize, ...]:
    if tensor.dims is None:
        unclear("the rank of an input is unknown")
    return tensor.dims


def unknown_dims(count: int) -> tuple[RowSize, ...]:
    return tuple(unknown_size() for _ in range(count))


def resized(dims: tuple[RowSize, ...], axis: int, to: RowSize) -> tuple[RowSize, ...]:
    """The same sizes, but one."""
    return (*dims[:axis], to, *dims[axis + 1 :])


def normal(axis: int, rank: int) -> int:
    return axis + rank if axis < 0 else axis


def row_size(tensor: RowTensor) -> RowSize:
    """The size of the axis of the rows."""
    assert tensor.axis is not None  # noqa: S101 - the callers looked
    return dims_of(tensor)[tensor.axis]
