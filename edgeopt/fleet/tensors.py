"""Requests of the Open Inference Protocol v2 with binary tensors, made from samples or from nothing."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from edgeopt.backends.base import Array, TensorInfo
from edgeopt.bundle.processing.attach import pictures_for
from edgeopt.data.read import load_data
from edgeopt.decoding import thread_safe
from edgeopt.errors import InputError, MissingError
from edgeopt.graph.feeds import generate_feeds

# The protocol's names; BF16 is not here, because numpy has no such type.
DTYPES: Mapping[str, str] = {
    "BOOL": "bool",
    "FP16": "float16",
    "FP32": "float32",
    "FP64": "float64",
    "BYTES": "str",
    **{f"{sign}INT{bits}": f"{sign.lower()}int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)},
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_MADE_UP_SAMPLES = 8
_MAX_BYTES = 256 << 20


class _Tensor(msgspec.Struct, frozen=True):
    name: str
    datatype: str
    shape: list[int]


class TensorMetadata(msgspec.Struct, frozen=True):
    """Answer of an agent about a model at `/v2/models/NAME`."""

    name: str
    inputs: list[_Tensor]
    outputs: list[_Tensor] = []


@dataclass(frozen=True, slots=True)
class TensorRequest:
    body: bytes
    header_length: int


def requests(model: TensorMetadata, data: Path | None, pre: Path | None = None) -> tuple[TensorRequest, ...]:
    """One request a sample of the data; without data some that fit the model's inputs (open dimensions are 1)."""
    inputs = tuple(tensor_info(tensor, fixed=data is None) for tensor in model.inputs)
    if data is None:
        return tuple(encode(feeds) for feeds in generate_feeds(inputs, None, _MADE_UP_SAMPLES, 0))
    samples = load_data(data, inputs, pictures_for(pre))
    made: list[TensorRequest] = []
    size = 0
    for index in range(len(samples)):
        made.append(encode(samples.feeds(index)))
        size += len(made[-1].body)
        if size > _MAX_BYTES:
            break
    return tuple(made)


def encode(feeds: Mapping[str, Array]) -> TensorRequest:
    """One run's inputs as a request: the JSON header, then the tensors' bytes."""
    rows, parts = [], []
    for name, array in feeds.items():
        datatype = _NAMES["str" if array.dtype.kind == "U" else array.dtype.name]
        parts.append(_bytes(array))
        size = {"binary_data_size": len(parts[-1])}
        rows.append({"name": name, "datatype": datatype, "shape": list(array.shape), "parameters": size})
    header = json.dumps({"inputs": rows, "parameters": {"binary_data_output": True}}).encode()
    return TensorRequest(b"".join([header, *parts]), len(header))


def _bytes(array: Array) -> bytes:
    if array.dtype.kind != "U":
        return np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).tobytes()
    texts = [str(text).encode() for text in array.flat]
    return b"".join(len(text).to_bytes(4, "little") + text for text in texts)


def tensor_info(tensor: _Tensor, fixed: bool) -> TensorInfo:
    """An input or output as backends describe it; open dimensions are None, or 1 where they are to be fixed."""
    dtype = DTYPES.get(tensor.datatype)
    if dtype is None:
        raise InputError(
            f"The model's input '{tensor.name}' is of type {tensor.datatype}, which edgeopt cannot send.",
            "Send requests with your own client, and watch without --send.",
        )
    open_size = 1 if fixed else None
    return TensorInfo(tensor.name, dtype, tuple(size if size >= 0 else open_size for size in tensor.shape))


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


_read = msgspec.json.Decoder(thread_safe(_Answer)).decode


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
