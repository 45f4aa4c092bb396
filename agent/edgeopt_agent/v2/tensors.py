"""Tensors as the protocol writes them, to and from arrays; only workers do this."""

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from edgeopt.decoding import thread_safe
from edgeopt_agent.v2.datatypes import DATATYPES
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.v2.pauses import Pause, no_pause
from edgeopt_agent.workers.frames import Port

Bytes = bytes | bytearray | memoryview
MAX_STRINGS = 1 << 16
MAX_SLOW_NUMBERS = 4096
"""Most numbers with exponents of three digits: parsers take up to 20 us for one."""
MAX_ANSWER_BYTES = 64 << 20
"""Largest output in JSON."""
_STRINGS_A_PIECE = 1 << 10
_VALUES_A_PIECE = 1 << 14
_SLOW_NUMBER = re.compile(rb"[eE][+-]?0*[1-9][0-9][0-9]")
_LENGTH = struct.Struct("<I")


def array_type(dtype: str) -> np.dtype[Any]:
    """Returns NumPy's type for a dtype of a model; another package adds bfloat16."""
    if dtype == "bfloat16":
        import ml_dtypes

        added: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return added
    return np.dtype(object) if dtype == "str" else np.dtype(dtype)


def from_bytes(
    data: memoryview, port: Port, shape: Sequence[int], elements: int, pause: Pause = no_pause
) -> NDArray[Any]:
    """Reads a tensor that was sent as bytes; shares the memory unless the processor cannot use its alignment."""
    if port.dtype == "str":
        return _strings(data, port, shape, elements, pause)
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


def from_json(
    data: msgspec.Raw, port: Port, shape: Sequence[int], elements: int, pause: Pause = no_pause
) -> NDArray[Any]:
    """Returns a tensor that was sent as JSON, flat or nested.

    Nothing is built before the text is known to hold this number of values in lists of this shape.
    """
    text = memoryview(data)
    if not text:
        raise RequestError(400, f"The input '{port.name}' has no data.")
    if port.dtype == "bfloat16":
        raise RequestError(
            400, f"The input '{port.name}' is of the datatype BF16, which goes as binary data only."
        )
    if text[0] != ord("["):
        raise RequestError(400, f"The data of the input '{port.name}' is not a list.")
    if port.dtype == "str":
        return _json_strings(bytes(text), port, shape, elements).reshape(shape)
    if elements * _FEWEST_BYTES > len(text):  # before memory for them is taken
        raise _misshapen(port, shape, elements)
    return _json_numbers(text, port, shape, elements, pause).reshape(shape)


_FEWEST_BYTES = 2
"""Least bytes of a value in JSON, including the comma or bracket behind it."""
_CHUNK_BYTES = 1 << 16
_BRACKETS = b"[]"
_STRUCTURE = b"[],"
_NOT_STRUCTURE = bytes(set(range(256)) - set(_STRUCTURE))
_WHITESPACE = b" \t\r\n"
# Each refuses values of another type, strings, lists and objects at the first one.
_WHOLE = msgspec.json.Decoder(thread_safe(list[int]))
_DECODERS: Mapping[str, tuple[msgspec.json.Decoder[Any], str]] = {
    "b": (msgspec.json.Decoder(thread_safe(list[bool])), "bool"),
    "i": (_WHOLE, "int64"),
    "u": (_WHOLE, "uint64"),
    "f": (msgspec.json.Decoder(thread_safe(list[float])), "float64"),
}


def _misshapen(port: Port, shape: Sequence[int], elements: int) -> RequestError:
    return RequestError(
        400,
        f"The data of the input '{port.name}' does not fit {list(shape)}: "
        f"it must be a list of {elements} values, flat or nested evenly.",
    )


def unfit(port: Port) -> RequestError:
    """Returns the error for values that the input's type does not have."""
    return RequestError(
        400, f"The data of the input '{port.name}' holds values that {DATATYPES[port.dtype]} does not have."
    )


def _json_numbers(text: memoryview, port: Port, shape: Sequence[int], elements: int, pause: Pause) -> NDArray[Any]:
    """Returns the values in their order, read piece by piece: Python's numbers take much memory."""
    array = np.empty(elements, array_type(port.dtype))
    decoder, carrier = _DECODERS[array.dtype.kind]
    structure = _Structure(shape, elements, len(text))
    place = slow = 0
    for piece in _pieces(text):
        pause()
        if b"e" in piece or b"E" in piece:
            slow += len(_SLOW_NUMBER.findall(piece))
            if slow > MAX_SLOW_NUMBERS:
                raise RequestError(
                    413,
                    f"The input '{port.name}' has more than {MAX_SLOW_NUMBERS} numbers with exponents of three "
                    "digits in JSON; send it as binary data.",
                )
        if not structure.goes_on_with(piece.translate(None, _NOT_STRUCTURE)):
            raise _misshapen(port, shape, elements)
        try:
            if len(piece) < len(text) or structure.nested:
                piece = b"[" + piece.rstrip(b",").translate(None, _BRACKETS) + b"]"  # noqa: PLW2901
            values = decoder.decode(piece)
            wide = np.fromiter(values, carrier, len(values))
        except (msgspec.DecodeError, OverflowError):
            raise unfit(port) from None
        with np.errstate(over="ignore"):
            exact = wide.astype(array.dtype, copy=False)
        # A value that the type cannot hold comes out as another one.
        if not (np.isfinite(exact).all() if exact.dtype.kind == "f" else (exact == wide).all()):
            raise unfit(port)
        if place + len(exact) > elements:
            raise _misshapen(port, shape, elements)
        array[place : place + len(exact)] = exact
        place += len(exact)
    if place != elements or not structure.complete:
        raise _misshapen(port, shape, elements)
    return array


def _pieces(text: memoryview) -> Iterator[bytes]:
    """Yields the text in pieces that end behind a comma."""
    start = 0
    while start < len(text):
        piece = bytes(text[start : start + _CHUNK_BYTES])
        if start + _CHUNK_BYTES < len(text):
            piece = piece[: piece.rfind(b",") + 1]
        if not piece:
            raise RequestError(400, f"The data of an input holds a number of more than {_CHUNK_BYTES} bytes.")
        yield piece
        start += len(piece)


class _Structure:
    """The brackets and commas of a tensor in JSON, flat or nested, to compare a text with piece by piece."""

    def __init__(self, shape: Sequence[int], elements: int, max_bytes: int) -> None:
        self._shape, self._max_bytes = shape, max_bytes
        self._flat_bytes = max(elements, 1) + 1
        self._nested: bytes | None = None
        self._place = 0

    @property
    def nested(self) -> bool:
        return self._nested is not None

    @property
    def complete(self) -> bool:
        return self._place == (self._flat_bytes if self._nested is None else len(self._nested))

    def goes_on_with(self, piece: bytes) -> bool:
        if self._place == 0 and piece[1:2] == b"[":
            self._nested = self._as_nested()
        start, self._place = self._place, self._place + len(piece)
        if self._nested is not None:
            return self._nested[start : self._place] == piece
        inner = piece[1:] if start == 0 else piece
        inner = inner[:-1] if self._place == self._flat_bytes else inner
        return self._place <= self._flat_bytes and inner == b"," * len(inner)

    def _as_nested(self) -> bytes:
        """Returns the brackets and commas of the nested form; empty if that would be longer than the text."""
        lists = length = 1
        for size in self._shape[:-1]:
            lists *= size
            length += lists
        if not self._shape or 2 * length > self._max_bytes:
            return b""
        made = b"[" + b"," * (self._shape[-1] - 1) + b"]"
        for size in reversed(self._shape[:-1]):
            made = b"[" + (made + b",") * (size - 1) + (made if size else b"") + b"]"
        return made


def check_strings(port: Port, elements: int) -> None:
    """Raises RequestError for more strings than are read: each becomes an object, however short it is."""
    if elements > MAX_STRINGS:
        raise RequestError(
            413,
            f"The input '{port.name}' has {elements} strings; at most {MAX_STRINGS} are taken in one tensor. "
            "Send them in several requests.",
        )


def _json_strings(text: bytes, port: Port, shape: Sequence[int], elements: int) -> NDArray[Any]:
    check_strings(port, elements)
    # Without escaped backslashes and quotes, every quote begins or ends a string.
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text
    quotes = plain.count(b'"')
    if quotes > 2 * elements:
        raise _misshapen(port, shape, elements)
    outside = b"".join(plain.split(b'"')[::2]).translate(None, _WHITESPACE)
    if outside.translate(None, _STRUCTURE):
        raise unfit(port)
    structure = _Structure(shape, elements, len(text))
    if quotes != 2 * elements or not (structure.goes_on_with(outside) and structure.complete):
        raise _misshapen(port, shape, elements)
    array = np.empty(elements, object)
    # As objects, or strings would lose the NULs at their ends.
    array[:] = np.array(msgspec.json.decode(text), object).reshape(-1)
    return array


def _strings(data: memoryview, port: Port, shape: Sequence[int], elements: int, pause: Pause) -> NDArray[Any]:
    """Reads strings, each preceded by its length in four bytes."""
    check_strings(port, elements)
    if elements * _LENGTH.size > len(data):
        raise RequestError(
            400,
            f"The input '{port.name}' of the shape {list(shape)} must hold {elements} strings, "
            f"which {len(data)} bytes are too few for.",
        )
    array = np.empty(elements, object)
    place = 0
    for index in range(elements):
        if not index % _STRINGS_A_PIECE:
            pause()
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
    """Returns the bytes of an output; an array of numbers in order shares its memory."""
    if array.dtype.kind in "OUS":
        encoded = [str(text).encode(errors="surrogateescape") for text in array.flat]
        joined = b"".join(part for text in encoded for part in (_LENGTH.pack(len(text)), text))
        return np.frombuffer(joined, np.uint8)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def to_json(array: NDArray[Any], name: str, pause: Pause = no_pause) -> msgspec.Raw:
    """Returns the values of an output, flat, as the protocol's own servers write them."""
    written = bytearray(b"[")
    values = array.reshape(-1)
    for start in range(0, values.size, _VALUES_A_PIECE):
        pause()
        part = values[start : start + _VALUES_A_PIECE]
        if part.dtype.kind in "OUS":
            listed = [str(text) for text in part]
            if not all(map(is_text, listed)):
                raise RequestError(
                    400, f"The output '{name}' holds bytes that are not UTF-8; ask for it as binary data."
                )
        elif part.dtype.kind not in "biu" and not np.isfinite(part).all():
            raise RequestError(
                400,
                f"The output '{name}' holds NaN or infinity, which JSON does not have; ask for it as binary data.",
            )
        else:
            listed = part.tolist()
        if start:
            written += b","
        written += memoryview(msgspec.json.encode(listed))[1:-1]
        if len(written) > MAX_ANSWER_BYTES:
            raise RequestError(
                413,
                f"The {values.size} values of the output '{name}' take more than the {MAX_ANSWER_BYTES} bytes of "
                "JSON that are written; ask for it as binary data.",
            )
    written += b"]"
    return msgspec.Raw(written)


def is_text(text: str) -> bool:
    """Whether a string is text, and not bytes that are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
