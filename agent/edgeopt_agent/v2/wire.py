"""The outermost fields of a protobuf message, found without copying or decoding what is in them."""

from collections.abc import Iterator
from typing import NamedTuple

from edgeopt_agent.v2.errors import RequestError

MAX_FIELDS = 4096
"""The agent walks over them in its event loop: a message of millions would stop it."""
_MAX_VARINT_BYTES = 10
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MODEL_NAME, _MODEL_VERSION, _ID = 1, 2, 3
_MAX_NAME_BYTES = 4096


class Field(NamedTuple):
    number: int
    is_bytes: bool
    begin: int
    """Position of the field's tag; the value goes from `start` to `end`."""
    start: int
    end: int


class Target(NamedTuple):
    """The fields of a ModelInferRequest that the agent itself reads."""

    model_name: str
    model_version: str
    id: str


def read_target(message: bytes) -> Target:
    """Reads the names and the id of a request; raises RequestError if it is no message."""
    found = {_MODEL_NAME: "", _MODEL_VERSION: "", _ID: ""}
    for number, is_bytes, _, start, end in outer_fields(message):
        if is_bytes and number in found:
            if end - start > _MAX_NAME_BYTES:
                raise RequestError(
                    400, f"The model's name, version or the id is longer than {_MAX_NAME_BYTES} bytes."
                )
            try:
                found[number] = message[start:end].decode()
            except UnicodeDecodeError:
                raise RequestError(400, "The model's name, version or the id is not UTF-8.") from None
    return Target(*found.values())


def split(message: memoryview, number: int) -> tuple[bytes, list[memoryview]]:
    """Returns the message without one of its repeated `bytes` fields, and the values of that field."""
    rest: list[memoryview] = []
    values: list[memoryview] = []
    for field in outer_fields(message):
        if field.number == number and field.is_bytes:
            values.append(message[field.start : field.end])
        else:
            rest.append(message[field.begin : field.end])
    return b"".join(rest), values


def outer_fields(message: bytes | memoryview, maximum: int = MAX_FIELDS) -> Iterator[Field]:
    """Yields each field of the message itself, but not those of the messages in it."""
    place = count = 0
    while place < len(message):
        count += 1
        if count > maximum:
            raise RequestError(400, f"The request has more than {maximum} fields.")
        begin = place
        tag, place = _read_varint(message, place)
        kind, start = tag & 7, place
        if kind == _BYTES:
            size, start = _read_varint(message, place)
            end = start + size
        elif kind == _VARINT:
            _, end = _read_varint(message, place)
        elif kind in {_FIXED64, _FIXED32}:
            end = place + (8 if kind == _FIXED64 else 4)
        else:
            raise _broken()
        if end > len(message):
            raise _broken()
        yield Field(tag >> 3, kind == _BYTES, begin, start, end)
        place = end


def repeated_bytes(message: bytes, number: int, maximum: int) -> list[bytes]:
    """Returns the values of one repeated `bytes` field; the quick way for a message of many short ones."""
    tag = number << 3 | _BYTES
    found: list[bytes] = []
    place, end = 0, len(message)
    while place + 1 < end and message[place] == tag and message[place + 1] < 0x80:
        start = place + 2
        place = start + message[place + 1]
        if place > end:
            raise _broken()
        if len(found) == maximum:
            raise RequestError(400, f"The request has more than {maximum} fields.")
        found.append(message[start:place])
    rest = memoryview(message)[place:]
    found.extend(
        bytes(rest[field.start : field.end])
        for field in outer_fields(rest, maximum - len(found))
        if field.number == number and field.is_bytes
    )
    return found


def _read_varint(message: bytes | memoryview, place: int) -> tuple[int, int]:
    if place < len(message) and message[place] < 0x80:
        return message[place], place + 1
    value = 0
    for index, byte in enumerate(message[place : place + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, place + index + 1
    raise _broken()


def _broken() -> RequestError:
    return RequestError(400, "The request is not a protobuf message of the protocol.")


def bytes_field(number: int, size: int) -> bytes:
    """Encodes what precedes the value of a `bytes` or message field: its tag and its length."""
    return _varint(number << 3 | _BYTES) + _varint(size)


def _varint(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
