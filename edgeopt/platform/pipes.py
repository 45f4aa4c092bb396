"""Pipes with time limits: by `poll`, or where pipes cannot be polled (Windows) by a thread that reads."""

import math
import os
import select
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Protocol, TypeVar

PIECE_BYTES = getattr(select, "PIPE_BUF", 512)
"""Bytes that a pipe with room accepts without blocking."""
_LOOK_EVERY_S = 0.005
_MAX_CHUNKS = 16


class PipeReader(Protocol):
    """The reading end of a pipe."""

    def wait(self, timeout_s: float | None) -> bool:
        """Waits until there are bytes or the end; returns False if the time is up first."""
        ...

    def read(self) -> bytes:
        """Waits for bytes and returns them; empty at the end."""
        ...

    def close(self) -> None:
        """Ends reading; does not close the pipe."""
        ...


def open_reader(number: int, chunk_bytes: int = 1 << 16) -> PipeReader:
    """Returns a reader of the pipe with this file number, which nothing else may read any more."""
    return PolledReader(number, chunk_bytes) if hasattr(select, "poll") else ThreadReader(number, chunk_bytes)


class PolledReader:
    def __init__(self, number: int, chunk_bytes: int) -> None:
        self._number, self._chunk_bytes = number, chunk_bytes
        # Not `select.select`, which fails for file numbers above 1023.
        self._poll = select.poll()
        self._poll.register(number, select.POLLIN)

    def wait(self, timeout_s: float | None) -> bool:
        # Rounded up, because a caller's loop would spin during the last part of a millisecond.
        return bool(self._poll.poll(None if timeout_s is None else math.ceil(1e3 * timeout_s)))

    def read(self) -> bytes:
        return os.read(self._number, self._chunk_bytes)

    def close(self) -> None:
        """Does nothing: no resource is open."""


class ThreadReader:
    def __init__(self, number: int, chunk_bytes: int) -> None:
        self._chunks: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._ended = self._closed = False
        # A file number of its own: the pipe may be closed, and its number taken by another file, while it reads.
        arguments = (os.dup(number), chunk_bytes)
        threading.Thread(target=self._follow, args=arguments, daemon=True, name="pipe").start()

    def wait(self, timeout_s: float | None) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._chunks) or self._ended, timeout_s)

    def read(self) -> bytes:
        self.wait(None)
        with self._changed:
            self._changed.notify_all()
            return self._chunks.popleft() if self._chunks else b""

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _follow(self, number: int, chunk_bytes: int) -> None:
        try:
            while not self._closed and (chunk := os.read(number, chunk_bytes)):
                with self._changed:
                    self._chunks.append(chunk)
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: len(self._chunks) < _MAX_CHUNKS or self._closed)
        except OSError:
            pass  # as if it had ended
        finally:
            os.close(number)
            with self._changed:
                self._ended = True
                self._changed.notify_all()


class Source(Protocol):
    """A process or the like that is ready at some time."""

    def fileno(self) -> int: ...
    def ready(self, timeout_s: float) -> bool: ...


AnySource = TypeVar("AnySource", bound=Source)


def wait_for_any(sources: Sequence[AnySource], timeout_s: float) -> list[AnySource]:
    """Waits until some are ready, and returns these; empty if the time is up first."""
    if hasattr(select, "poll"):
        numbers = {each.fileno(): each for each in sources}
        poll = select.poll()
        for number in numbers:
            poll.register(number, select.POLLIN)
        return [numbers[number] for number, _ in poll.poll(1e3 * timeout_s)]
    end = time.monotonic() + timeout_s
    while not (found := [each for each in sources if each.ready(0.0)]) and time.monotonic() < end:
        time.sleep(_LOOK_EVERY_S)
    return found


def wait_for_room(number: int, timeout_s: float) -> bool:
    """Waits until something can be written to a pipe, or nobody reads; returns False if the time is up first.

    Where that is not to be known, returns True at once.
    """
    if not hasattr(select, "poll"):
        return True
    poll = select.poll()
    poll.register(number, select.POLLOUT)
    return bool(poll.poll(1e3 * timeout_s))
