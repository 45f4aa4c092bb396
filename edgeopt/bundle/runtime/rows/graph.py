"""The graph of an ONNX file, read without the onnx package: nodes, attributes and small constants."""

import math
import mmap
import struct
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from edgeopt.backends.protobuf import Span, all_fields, opened, packed_integers, text

_MOST_VALUES = 256
"""Constants with more values than this hold no sizes, axes or bounds."""
_FLOAT, _INT32, _INT64, _BOOL, _DOUBLE = 1, 6, 7, 9, 11
_FORMATS = {_FLOAT: "f", _INT32: "i", _INT64: "q", _BOOL: "?", _DOUBLE: "d"}

_Found = dict[int, list[int | bytes | Span]]


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
    attributes: "dict[str, int | float | str | tuple[int, ...] | ConstantTensor | ModelGraph]"


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
    constants = dict(_tensor(data, each) for each in _spans(told, 5))
    for sparse in _spans(told, 15):
        values = _spans(_found(data, sparse), 1)
        if values:
            constants[_tensor(data, values[0])[0]] = ConstantTensor((), None)
    return ModelGraph(
        tuple(_node(data, each) for each in _spans(told, 1)),
        constants,
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
) -> tuple[str, int | float | str | tuple[int, ...] | ConstantTensor | ModelGraph]:
    told = _found(data, span)
    name, kind = _text(data, told, 1), _integer(told, 20)
    if kind == 1 and isinstance(number := told.get(2, [b"\0\0\0\0"])[-1], bytes):
        return name, float(struct.unpack("<f", number)[0])
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
        elif kind in (_FLOAT, _DOUBLE):
            numbers = _floats(data, told.get(4 if kind == _FLOAT else 10, []), code)
        else:
            numbers = _integers(data, told, 7 if kind == _INT64 else 5)
        if len(numbers) == count and all(math.isfinite(number) for number in numbers):
            values = tuple(Fraction(number) for number in numbers)
    return _text(data, told, 8), ConstantTensor(dims, values)


def _floats(data: mmap.mmap, found: list[int | bytes | Span], code: str) -> tuple[float, ...]:
    pieces = [bytes(data[slice(*each)]) if isinstance(each, tuple) else each for each in found]
    joined = b"".join(each for each in pieces if isinstance(each, bytes))
    return struct.unpack(f"<{len(joined) // struct.calcsize(code)}{code}", joined)


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
