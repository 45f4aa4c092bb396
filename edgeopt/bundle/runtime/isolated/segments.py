"""Shared memory without a name: it is gone with the last process that holds it, so none can be left behind."""

import functools
import itertools
import mmap
import os
import tempfile
import weakref
from collections import deque
from collections.abc import Mapping

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.bundle.runtime.isolated.messages import ArrayPlace
from edgeopt.errors import ModelError

_ALIGNMENT = 64
_LEAST_BYTES = 1 << 16
_MOST_FREE = 4
"""More than are in use at once where each result is dropped before the next."""

_numbers = itertools.count(1)


class Segment:
    """A piece of memory that its file can share with a worker."""

    __slots__ = ("__weakref__", "file", "forked", "memory", "number", "size_bytes")

    def __init__(self, size_bytes: int, gone: deque[int]) -> None:
        """`gone` gets its number once nothing holds it."""
        self.number = next(_numbers)
        # Powers of two, so that inputs of many shapes share a few; pages that nobody touches take no memory.
        self.size_bytes = max(_LEAST_BYTES, 1 << (size_bytes - 1).bit_length())
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
        if len(self._free) > _MOST_FREE:
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
    """Where each array lies, and how much they take together, in bytes."""
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
