"""Writes small ONNX models as bytes, so that a device with a runtime and without the onnx package can be measured.

Field numbers are those of onnx.proto.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_IR_VERSION, _OPSET = 8, 13
_TYPES = {"float32": 1, "uint8": 2, "int8": 3}
_INTS = 7  # of AttributeProto.type


def model(nodes: Iterable[bytes], constants: dict[str, NDArray[Any]], given: bytes, result: bytes) -> bytes:
    """A ModelProto with one input and one output (see `port`)."""
    tensors = b"".join(_bytes(5, _tensor(name, array)) for name, array in constants.items())
    graph = b"".join(_bytes(1, node) for node in nodes) + _bytes(2, b"peaks") + tensors
    graph += _bytes(11, given) + _bytes(12, result)
    return _number(1, _IR_VERSION) + _bytes(7, graph) + _bytes(8, _bytes(1, b"") + _number(2, _OPSET))


def node(operator: str, inputs: Sequence[str], output: str, **attributes: Sequence[int]) -> bytes:
    """A NodeProto whose attributes are lists of integers."""
    ends = [*(_bytes(1, name.encode()) for name in inputs), _bytes(2, output.encode())]
    named = [*ends, _bytes(3, f"{operator}/{output}".encode()), _bytes(4, operator.encode())]
    for name, values in attributes.items():
        numbers = b"".join(_number(8, value) for value in values)
        named.append(_bytes(5, _bytes(1, name.encode()) + numbers + _number(20, _INTS)))
    return b"".join(named)


def port(name: str, dtype: str, shape: Sequence[int]) -> bytes:
    """A ValueInfoProto: an input or output of the graph."""
    dimensions = b"".join(_bytes(1, _number(1, size)) for size in shape)
    return _bytes(1, name.encode()) + _bytes(2, _bytes(1, _number(1, _TYPES[dtype]) + _bytes(2, dimensions)))


def _tensor(name: str, array: NDArray[Any]) -> bytes:
    shape = b"".join(_number(1, size) for size in array.shape)
    values = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    return shape + _number(2, _TYPES[array.dtype.name]) + _bytes(8, name.encode()) + _bytes(9, values)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])
