"""Tensors as the protocol writes them, to and from arrays; only workers do this."""

import struct
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from edgeopt_agent.v2.datatypes import DATATYPES
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.workers.frames import Port

Bytes = bytes | bytearray | memoryview
_LENGTH = struct.Struct("<I")


def array_type(dtype: str) -> np.dtype[Any]:
    """NumPy's type for a dtype of a model; bfloat16 is one that another package adds to it."""
    if dtype == "bfloat16":
        import ml_dtypes

        added: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return added
    return np.dtype(object) if dtype == "str" else np.dtype(dtype)


def from_bytes(data: memoryview, port: Port, shape: Sequence[int], elements: int) -> NDArray[Any]:
    """A tensor that was sent as bytes: the same memory, unless it lies where the processor wants none."""
    if port.dtype == "str":
        return _strings(data, port, shape, elements)
    dtype = array_type(port.dtype)
    if len(data) != elements * dtype.itemsize:
        raise RequestError(
            400,
            f"The input '{port.name}' of the shape {list(shape)} must be {elements * dtype.itemsize} bytes long, "
            f"not {len(data)}.",
        )
    array: NDArray[Any] = np.frombuffer(data, dtype) if elements else np.empty(0, dtype)
    array = array.reshape(shape)
    return array if array.flags.aligned else array.copy()


def from_json(data: msgspec.Raw, port: Port, shape: Sequence[int], elements: int) -> NDArray[Any]:
    """A tensor that was sent as JSON, flat or nested."""
    if not data:
        raise RequestError(400, f"The input '{port.name}' has no data.")
    if port.dtype == "bfloat16":
        raise RequestError(
            400, f"The input '{port.name}' is of the datatype BF16, which goes as binary data only."
        )
    try:
        # As objects, or strings would lose the NULs at their ends.
        values = msgspec.json.decode(data, type=list[Any])
        found = np.array(values, object if port.dtype == "str" else None)
        if port.dtype == "uint64" and found.dtype.kind == "f":
            # NumPy takes integers on both sides of 2**63 together as rounded floats.
            found = _whole_numbers(np.array(values, object))
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError):
        raise RequestError(
            400, f"The data of the input '{port.name}' is not a list of values, flat or nested evenly."
        ) from None
    if found.shape not in {(elements,), tuple(shape)} and (found.size or elements):
        raise RequestError(
            400,
            f"The data of the input '{port.name}' has the shape {list(found.shape)}, "
            f"which does not fit {list(shape)}.",
        )
    return _converted(found, port).reshape(shape)


def _whole_numbers(found: NDArray[Any]) -> NDArray[Any]:
    """The same as UINT64 where each is an integer that it holds; otherwise unchanged, to be refused."""
    exact = all(type(value) is int and 0 <= value < 1 << 64 for value in found.flat)
    return found.astype(np.uint64) if exact else found


_FROM_KINDS = {"b": "b", "i": "iu", "u": "iu", "f": "fiu"}


def _converted(found: NDArray[Any], port: Port) -> NDArray[Any]:
    dtype = array_type(port.dtype)
    if not found.size:
        return np.empty(0, dtype)
    if dtype.kind == "O":
        if all(isinstance(value, str) for value in found.flat):
            return found
    elif found.dtype.kind in _FROM_KINDS[dtype.kind]:
        with np.errstate(over="ignore"):
            array = found.astype(dtype)
        # A value that the type cannot hold comes out as another one.
        if dtype.kind == "b" or (np.isfinite(array).all() if dtype.kind == "f" else (array == found).all()):
            return array
    raise RequestError(
        400, f"The data of the input '{port.name}' holds values that {DATATYPES[port.dtype]} does not have."
    )


def _strings(data: memoryview, port: Port, shape: Sequence[int], elements: int) -> NDArray[Any]:
    """Each with its length in front, in four bytes."""
    if elements * _LENGTH.size > len(data):
        raise RequestError(
            400,
            f"The input '{port.name}' of the shape {list(shape)} must hold {elements} strings, "
            f"which {len(data)} bytes are too few for.",
        )
    array = np.empty(elements, object)
    place = 0
    for index in range(elements):
        start = place + _LENGTH.size
        end = start + _LENGTH.unpack_from(data, place)[0] if start <= len(data) else start
        if end > len(data):
            raise RequestError(400, f"String {index} of the input '{port.name}' ends behind the input's bytes.")
        # Bytes that are not UTF-8 are carried as they are: the protocol does not say what they mean.
        array[index] = str(data[start:end], "utf-8", "surrogateescape")
        place = end
    if place != len(data):
        raise RequestError(400, f"{len(data) - place} bytes at the end of the input '{port.name}' are no string.")
    return array.reshape(shape)


def to_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of an output; those of numbers are the array's own memory where that lies in order."""
    if array.dtype.kind in "OUS":
        encoded = [str(text).encode(errors="surrogateescape") for text in array.flat]
        joined = b"".join(part for text in encoded for part in (_LENGTH.pack(len(text)), text))
        return np.frombuffer(joined, np.uint8)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def to_json(array: NDArray[Any], name: str) -> list[Any]:
    """The values of an output, flat, as the protocol's own servers write them."""
    if array.dtype.kind in "OUS":
        texts = [str(text) for text in array.flat]
        if not all(map(is_text, texts)):
            raise RequestError(
                400, f"The output '{name}' holds bytes that are not UTF-8; ask for it as binary data."
            )
        return texts
    if array.dtype.kind not in "biu" and not np.isfinite(array).all():
        raise RequestError(
            400, f"The output '{name}' holds NaN or infinity, which JSON does not have; ask for it as binary data."
        )
    return np.asarray(array).reshape(-1).tolist()


def is_text(text: str) -> bool:
    """Whether a string is text, and not bytes that are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
