"""Writes small ONNX models as bytes, so that a device with a runtime and without the onnx package can be measured.

Field numbers are those of onnx.proto.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_IR_VERSION, _OPSET = 8, 13
_TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7,
    "bool": 9, "float16": 10, "float64": 11,
}  # fmt: skip
_FLOAT, _INT, _STRING, _FLOATS, _INTS = 1, 2, 3, 6, 7  # of AttributeProto.type

Attribute = int | float | str | Sequence[int] | Sequence[float]


def model(
    nodes: Iterable[bytes],
    constants: dict[str, NDArray[Any]],
    inputs: bytes | Sequence[bytes],
    result: bytes | Sequence[bytes],
    opset: int = _OPSET,
) -> bytes:
    """Returns a ModelProto with one input and one output, or several (see `port`)."""
    tensors = b"".join(_bytes(5, _tensor(name, array)) for name, array in constants.items())
    graph = b"".join(_bytes(1, node) for node in nodes) + _bytes(2, b"peaks") + tensors
    graph += b"".join(_bytes(11, each) for each in ([inputs] if isinstance(inputs, bytes) else inputs))
    graph += b"".join(_bytes(12, each) for each in ([result] if isinstance(result, bytes) else result))
    return _number(1, _IR_VERSION) + _bytes(7, graph) + _bytes(8, _bytes(1, b"") + _number(2, opset))


def node(operator: str, inputs: Sequence[str], output: str | Sequence[str], **attributes: Attribute) -> bytes:
    """Returns a NodeProto; an omitted input has an empty name."""
    outputs = [output] if isinstance(output, str) else output
    ends = [*(_bytes(1, name.encode()) for name in inputs), *(_bytes(2, name.encode()) for name in outputs)]
    named = [*ends, _bytes(3, f"{operator}/{outputs[0]}".encode()), _bytes(4, operator.encode())]
    named += [_bytes(5, _bytes(1, name.encode()) + _attribute(value)) for name, value in attributes.items()]
    return b"".join(named)


def port(name: str, dtype: str, shape: Sequence[int]) -> bytes:
    """Returns a ValueInfoProto: an input or output of the graph."""
    dimensions = b"".join(_bytes(1, _number(1, size)) for size in shape)
    return _bytes(1, name.encode()) + _bytes(2, _bytes(1, _number(1, _TYPES[dtype]) + _bytes(2, dimensions)))


def _attribute(value: Attribute) -> bytes:
    if isinstance(value, str):
        return _bytes(4, value.encode()) + _number(20, _STRING)
    if isinstance(value, int):
        return _number(3, value) + _number(20, _INT)
    if isinstance(value, float):
        return _float(2, value) + _number(20, _FLOAT)
    if any(isinstance(each, float) for each in value):
        return b"".join(_float(7, each) for each in value) + _number(20, _FLOATS)
    return b"".join(_number(8, int(each)) for each in value) + _number(20, _INTS)


def _tensor(name: str, array: NDArray[Any]) -> bytes:
    shape = b"".join(_number(1, size) for size in array.shape)
    values = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    return shape + _number(2, _TYPES[array.dtype.name]) + _bytes(8, name.encode()) + _bytes(9, values)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _float(field: int, value: float) -> bytes:
    return _varint(field << 3 | 5) + struct.pack("<f", value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    written = bytearray()
    value &= 2**64 - 1  # less than zero: in two's complement
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])
