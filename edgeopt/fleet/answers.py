"""Answers of the Open Inference Protocol v2: the tensors in them, binary or as JSON."""

from typing import Any

import msgspec
import numpy as np

from edgeopt.backends.base import Array
from edgeopt.errors import MissingError
from edgeopt.fleet.tensors import DTYPES


class _Parameters(msgspec.Struct, frozen=True):
    binary_data_size: int | None = None


class _Output(msgspec.Struct, frozen=True):
    name: str
    datatype: str
    shape: list[int]
    parameters: _Parameters = _Parameters()
    data: list[Any] | None = None


class _Answer(msgspec.Struct, frozen=True):
    outputs: list[_Output]


_read = msgspec.json.Decoder(_Answer).decode


def decode(body: bytes, header_length: int | None) -> dict[str, Array]:
    """The outputs by name; `header_length` is where the JSON ends and the bytes begin (None: it is all JSON)."""
    try:
        outputs = _read(body if header_length is None else body[:header_length]).outputs
        place = len(body) if header_length is None else header_length
        arrays: dict[str, Array] = {}
        for output in outputs:
            size = output.parameters.binary_data_size
            if size is None:
                dtype = DTYPES[output.datatype]
                arrays[output.name] = np.array(output.data, object if dtype == "str" else dtype).reshape(
                    output.shape
                )
                continue
            arrays[output.name] = _from_bytes(body, place, size, output)
            place += size
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, ValueError, TypeError) as error:
        raise MissingError(
            f"The server's answer is not one of the Open Inference Protocol v2: {type(error).__name__}: {error}.",
            "Check that the address is that of a model.",
        ) from None
    return arrays


def _from_bytes(body: bytes, place: int, size: int, output: _Output) -> Array:
    dtype = DTYPES[output.datatype]
    if dtype != "str":
        kind = np.dtype(dtype).newbyteorder("<")
        found = np.frombuffer(body, kind, size // kind.itemsize, place).reshape(output.shape)
        return found.astype(dtype, copy=False)
    texts, end = [], place + size
    while place < end:
        length = int.from_bytes(body[place : place + 4], "little")
        texts.append(body[place + 4 : place + 4 + length].decode())
        place += 4 + length
    return np.array(texts, object).reshape(output.shape)
