"""Which inputs and outputs of a model file have a shape at all.

ONNX Runtime reports `[]` both for a single number and for a tensor of which nothing is known. The file tells
them apart, and reading the few fields of the protobuf by hand spares a serving device the onnx package.
Field numbers are those of onnx.proto.
"""

import mmap
from collections.abc import Iterator
from pathlib import Path

_GRAPH = 7  # in ModelProto
_INPUTS_AND_OUTPUTS = (11, 12)  # in GraphProto
_NAME, _TYPE = 1, 2  # in ValueInfoProto
_TENSOR = 1  # in TypeProto
_SHAPE = 2  # in TypeProto.Tensor

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def names_with_shape(path: Path) -> frozenset[str]:
    """The inputs and outputs of the graph that state a shape, be it an empty one."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return frozenset(
            bytes(data[slice(*_first(data, value, _NAME))]).decode()
            for graph in _parts(data, (0, len(data)), (_GRAPH,))
            for value in _parts(data, graph, _INPUTS_AND_OUTPUTS)
            for kind in _parts(data, value, (_TYPE,))
            for tensor in _parts(data, kind, (_TENSOR,))
            for _ in _parts(data, tensor, (_SHAPE,))
        )


def _first(data: mmap.mmap, span: tuple[int, int], field: int) -> tuple[int, int]:
    return next(_parts(data, span, (field,)), (0, 0))


def _parts(data: mmap.mmap, span: tuple[int, int], fields: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Where the length-delimited fields with these numbers lie."""
    at, end = span
    while at < end:
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _BYTES:
            size, at = _varint(data, at)
            if tag >> 3 in fields:
                yield at, at + size
            at += size
        elif kind == _VARINT:
            _, at = _varint(data, at)
        else:
            at += {_FIXED64: 8, _FIXED32: 4}[kind]


def _varint(data: mmap.mmap, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
