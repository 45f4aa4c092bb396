"""What a session and its worker send each other: short messages; the arrays lie in shared memory.

Load ->           <- Loaded | Failed
Execute ->            <- Executed | TooLarge | Failed
Collect ->        <- Executed                     after TooLarge, with a segment that is large enough
"""

import socket
import struct
import time
from collections.abc import Sequence

import msgspec

from edgeopt.backends.base import Placement, TensorInfo

OptionValue = str | int | float | bool | dict[str, list[int]]

_LENGTH = struct.Struct("<I")
_CHUNK_BYTES = 1 << 13
_MOST_FILES = 8


class ArrayPlace(msgspec.Struct, frozen=True, array_like=True):
    """An array in a segment."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


class Segments(msgspec.Struct, frozen=True, array_like=True):
    """Changes of the shared memory that a worker knows; the files of new segments come with the message."""

    new: tuple[tuple[int, int], ...] = ()
    """Number and size in bytes of each."""
    gone: tuple[int, ...] = ()


class Load(msgspec.Struct, frozen=True, tag="load"):
    backend: str
    model_path: str
    options: dict[str, OptionValue]
    strict: bool
    custom_ops: tuple[str, ...]
    memory_limit_bytes: int
    cpus: tuple[int, ...] = ()
    """What to run on; empty: wherever the system puts it."""


class Execute(msgspec.Struct, frozen=True, tag="execute"):
    segments: Segments
    inputs: int
    """The segment that holds them."""
    feeds: tuple[ArrayPlace, ...]
    outputs: int
    """The segment to write to."""


class Collect(msgspec.Struct, frozen=True, tag="collect"):
    segments: Segments
    outputs: int


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    placement: Placement | None


class Executed(msgspec.Struct, frozen=True, tag="executed"):
    outputs: tuple[ArrayPlace, ...]


class TooLarge(msgspec.Struct, frozen=True, tag="too-large"):
    """It ran, but the outputs take this much."""

    size_bytes: int


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    message: str
    hint: str = ""
    code: str = ""
    """Of the error that edgeopt raised; empty where a library raised one of its own."""
    no_memory: bool = False


Request = Load | Execute | Collect
Answer = Loaded | Executed | TooLarge | Failed

NO_CHANGES = Segments()

_encoder = msgspec.msgpack.Encoder()
decode_request: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
decode_answer: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def send(connection: socket.socket, message: Request | Answer, files: Sequence[int] = ()) -> None:
    """Raises OSError where the other side is gone."""
    content = _encoder.encode(message)
    whole = _LENGTH.pack(len(content)) + content
    sent = socket.send_fds(connection, [whole], list(files)) if files else connection.send(whole)
    if sent < len(whole):
        connection.sendall(whole[sent:])


def receive(connection: socket.socket, limit_s: float) -> bytes:
    """A message without files. Raises TimeoutError, and EOFError where the other side is gone."""
    until = time.monotonic() + limit_s
    connection.settimeout(limit_s)
    return _whole(connection, connection.recv(_CHUNK_BYTES), until)


def receive_with_files(connection: socket.socket) -> tuple[bytes, list[int]]:
    """A message and the files with it. Raises EOFError where the other side is gone."""
    begin, files, _, _ = socket.recv_fds(connection, _CHUNK_BYTES, _MOST_FILES)
    return _whole(connection, begin, None), files


def _whole(connection: socket.socket, found: bytes, until: float | None) -> bytes:
    # A request waits for its answer, so these bytes belong to one message.
    while len(found) < _LENGTH.size or len(found) - _LENGTH.size < _LENGTH.unpack_from(found)[0]:
        if until is not None:
            connection.settimeout(max(until - time.monotonic(), 1e-3))
        more = connection.recv(_CHUNK_BYTES) if found else b""
        if not more:
            raise EOFError
        found += more
    return found[_LENGTH.size :]
