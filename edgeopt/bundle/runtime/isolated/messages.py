"""What a session and its worker send each other: short messages; the arrays lie in shared memory.

Load ->           <- Loaded | Failed
Execute ->            <- Executed | TooLarge | Failed
Collect ->        <- Executed                     after TooLarge, with a segment that is large enough
"""

import contextlib
import functools
import os
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from edgeopt.backends.base import Placement, TensorInfo

OptionValue = str | int | float | bool | dict[str, list[int]]

_LENGTH = struct.Struct("<I")
_CHUNK_BYTES = 1 << 13
_MOST_FILES = 8
_POLLED_S = 200e-6
"""An answer that came this soon is polled for next time: waking a sleeping process takes about as long."""


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
    polls: bool = False
    """Whether to poll for the next request."""


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

Found = TypeVar("Found")

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


class Inbox:
    """Receives messages; with `polls`, briefly polls for the next one while the other side is quick."""

    def __init__(self, connection: socket.socket) -> None:
        self.polls = False
        self._connection = connection
        self._quick = False

    def receive(self, limit_s: float) -> bytes:
        """A message without files. Raises TimeoutError, and EOFError if the other side is gone."""
        until = time.monotonic() + limit_s
        connection = self._connection
        connection.settimeout(None)

        def wait() -> bytes:
            connection.settimeout(limit_s)
            return connection.recv(_CHUNK_BYTES)

        begin = self._next(lambda: connection.recv(_CHUNK_BYTES, socket.MSG_DONTWAIT), wait)
        return _whole(connection, begin, until)

    def receive_with_files(self) -> tuple[bytes, list[int]]:
        """A message and the files with it. Raises EOFError if the other side is gone."""
        receive = functools.partial(socket.recv_fds, self._connection, _CHUNK_BYTES, _MOST_FILES)
        begin, files, _, _ = self._next(lambda: receive(socket.MSG_DONTWAIT), receive)
        return _whole(self._connection, begin, None), files

    def _next(self, poll: "Callable[[], Found]", wait: "Callable[[], Found]") -> "Found":
        begin = time.perf_counter()
        while self.polls and self._quick and time.perf_counter() - begin < _POLLED_S:
            with contextlib.suppress(BlockingIOError):
                return poll()
            os.sched_yield()  # to a worker on the same core
        found = wait()
        self._quick = time.perf_counter() - begin < _POLLED_S
        return found


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
