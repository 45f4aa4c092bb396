"""Messages between a session and its worker, and the shared memory that holds their arrays."""

import contextlib
import functools
import itertools
import mmap
import os
import socket
import struct
import tempfile
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec
import numpy as np

from edgeopt.backends.base import Array, Placement, TensorInfo
from edgeopt.decoding import thread_safe
from edgeopt.errors import ModelError
from edgeopt.workers.protocol import Failed

OptionValue = str | int | float | bool | dict[str, list[int]]

_LENGTH = struct.Struct("<I")
_CHUNK_BYTES = 1 << 13
_MAX_FILES = 8
_POLLED_S = 200e-6
"""An answer that came this soon is polled for next time: waking a sleeping process takes about as long."""
_ALIGNMENT = 64
_MIN_BYTES = 1 << 16
_MAX_FREE = 4
"""More than are in use at once where each result is dropped before the next."""


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
    """Logical CPUs to run on; empty: the system chooses."""


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
    """Answer to a run whose outputs do not fit; they take `size_bytes`."""

    size_bytes: int


Request = Load | Execute | Collect
Answer = Loaded | Executed | TooLarge | Failed

Found = TypeVar("Found")

NO_CHANGES = Segments()

_encoder = msgspec.msgpack.Encoder()
decode_request: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(thread_safe(Request))
decode_answer: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(thread_safe(Answer))


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
        receive = functools.partial(socket.recv_fds, self._connection, _CHUNK_BYTES, _MAX_FILES)
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


_numbers = itertools.count(1)


class Segment:
    """A piece of memory that its file can share with a worker."""

    __slots__ = ("__weakref__", "file", "forked", "memory", "number", "size_bytes")

    def __init__(self, size_bytes: int, gone: deque[int]) -> None:
        """`gone` gets its number once nothing holds it."""
        self.number = next(_numbers)
        # Powers of two, so that inputs of many shapes share a few; pages that nobody touches take no memory.
        self.size_bytes = max(_MIN_BYTES, 1 << (size_bytes - 1).bit_length())
        self.file = _nameless_file()
        self.forked = False
        """Whether a forked process may hold results in it too, so that it must not be written to again."""
        weakref.finalize(self, _release, self.file, self.number, gone).atexit = False
        os.ftruncate(self.file, self.size_bytes)
        self.memory = mmap.mmap(self.file, self.size_bytes)


class SegmentPool:
    """Segments that are free for the next request. Its methods are safe in any thread and in finalizers."""

    def __init__(self) -> None:
        self.gone: deque[int] = deque()
        """Numbers that a worker may forget."""
        self._free: deque[Segment] = deque()
        self._held: dict[int, tuple[weakref.ref[Array], Segment]] = {}
        """Segments that results lie in, with a reference to what these share; an array has no hash."""

    def take(self, size_bytes: int) -> Segment:
        for _ in range(len(self._free)):
            try:
                segment = self._free.popleft()
            except IndexError:
                break
            if segment.size_bytes >= size_bytes:
                return segment
        return Segment(size_bytes, self.gone)

    def give_back(self, segment: Segment) -> None:
        if segment.forked:
            return
        self._free.append(segment)
        if len(self._free) > _MAX_FREE:
            self._free.popleft()

    def before_fork(self) -> None:
        for _, segment in tuple(self._held.values()):
            segment.forked = True

    def results(self, segment: Segment, places: tuple[ArrayPlace, ...]) -> dict[str, Array]:
        """The arrays in it, without a copy; when the last one is dropped, the segment is free again."""
        whole = np.frombuffer(segment.memory, np.uint8)
        reference = weakref.ref(whole, self._drop)
        self._held[id(reference)] = reference, segment
        return read(whole, places)

    def _drop(self, whole: "weakref.ref[Array]") -> None:
        self.give_back(self._held.pop(id(whole))[1])


def planned(arrays: Mapping[str, Array]) -> tuple[tuple[ArrayPlace, ...], int]:
    """Returns the place of each array, and the total size in bytes."""
    places, end = [], 0
    for name, array in arrays.items():
        # `str` is `V2` for bfloat16; for the others it is quicker, and tells how long texts are.
        kind = array.dtype.name if array.dtype.kind == "V" else array.dtype.str
        places.append(ArrayPlace(name, kind.replace(">", "="), array.shape, end))
        end += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
    return tuple(places), end


def write(memory: mmap.mmap, places: tuple[ArrayPlace, ...], arrays: Mapping[str, Array]) -> None:
    for place in places:
        np.copyto(np.ndarray(place.shape, _dtype(place.dtype), memory, place.offset), arrays[place.name])


def read(memory: mmap.mmap | Array, places: tuple[ArrayPlace, ...]) -> dict[str, Array]:
    """Views of the memory; texts as objects, as runtimes take them."""
    found: dict[str, Array] = {}
    for place in places:
        dtype = _dtype(place.dtype)
        array: Array = np.ndarray(place.shape, dtype, memory, place.offset)
        found[place.name] = array.astype(object) if dtype.kind == "U" else array
    return found


def flat_texts(name: str, value: object) -> Array:
    """An array that lies in one piece of memory: texts get one length each."""
    if not isinstance(value, np.ndarray | np.generic):
        raise ModelError(
            f"The output '{name}' is not an array; workers return arrays only.",
            "Load the model without 'isolate', or export it without sequences and maps.",
        )
    array = np.asarray(value)
    return array.astype(str) if array.dtype.kind in "OSU" else array


@functools.cache
def _dtype(name: str) -> "np.dtype[np.generic]":
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # noqa: F401 - gives numpy the names bfloat16 and float8_*

        return np.dtype(name)


def _nameless_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("edgeopt")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _release(file: int, number: int, gone: deque[int]) -> None:
    os.close(file)
    gone.append(number)
