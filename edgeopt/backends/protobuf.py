"""A reader of the few fields of an ONNX file that a serving device needs, without the onnx package.

Field numbers are those of onnx.proto.
"""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

Span = tuple[int, int]

GRAPH = 7  # in ModelProto
NODES = 1  # in GraphProto

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@contextmanager
def opened(path: Path) -> Iterator[mmap.mmap]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def parts(data: mmap.mmap, span: Span, fields: tuple[int, ...]) -> Iterator[Span]:
    """Yields the spans of the length-delimited fields with these numbers."""
    return ((begin, end) for _, begin, end in numbered_parts(data, span, fields))


def numbered_parts(data: mmap.mmap, span: Span, fields: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    """Yields the spans of length-delimited fields with these numbers, each with its field number."""
    at, end = span
    while at < end:
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _BYTES:
            size, at = _varint(data, at)
            if tag >> 3 in fields:
                yield tag >> 3, at, at + size
            at += size
        elif kind == _VARINT:
            _, at = _varint(data, at)
        else:
            at += {_FIXED64: 8, _FIXED32: 4}[kind]


def text(data: mmap.mmap, span: Span) -> str:
    return bytes(data[slice(*span)]).decode()


def _varint(data: mmap.mmap, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
