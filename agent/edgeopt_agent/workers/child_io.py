"""Frames on the worker's side of the socket, with blocking calls."""

import select
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeopt_agent.v2.pauses import Pause, no_pause
from edgeopt_agent.workers.frames import MAX_HEADER_BYTES, PREFIX, FromWorker, ToWorker, head, to_worker

_KEPT_BYTES = 1 << 20
_PIECE_BYTES = 1 << 20
"""Bytes sent or received between two pauses."""
_ALIGNMENT_BYTES = 64
_NOTHING = memoryview(b"")


@dataclass(frozen=True, slots=True)
class Frame:
    """A received frame; `text` and `data` are valid only until the next one is received."""

    message: ToWorker
    text: memoryview
    data: memoryview
    too_large: bool = False
    """Whether there was no memory for them, so that they were thrown away."""


class Frames:
    def __init__(self, connection: socket.socket, pause: Pause = no_pause) -> None:
        connection.setblocking(True)
        self.ended = False
        """Whether the agent has closed the socket."""
        self._pause = pause
        self._connection = connection
        self._prefix = memoryview(bytearray(PREFIX.size))
        self._text = _FrameBuffer()
        self._data = _FrameBuffer()

    def receive(self) -> Frame | None:
        """Returns the next frame; None when the agent has closed the socket."""
        frame = self._received()
        self.ended = frame is None
        return frame

    def _received(self) -> Frame | None:
        if not self._fill(self._prefix):
            return None
        header_bytes, text_bytes, data_bytes = PREFIX.unpack(self._prefix)
        if header_bytes > MAX_HEADER_BYTES:
            raise ValueError(f"a frame with a header of {header_bytes} bytes")
        header = memoryview(bytearray(header_bytes))
        try:
            text, data = self._text.view(text_bytes), self._data.view(data_bytes)
        except MemoryError:
            if not (self._fill(header) and self._skip(text_bytes + data_bytes)):
                return None
            return Frame(to_worker.decode(header), _NOTHING, _NOTHING, too_large=True)
        if not (self._fill(header) and self._fill(text) and self._fill(data)):
            return None
        return Frame(to_worker.decode(header), text, data)

    def fileno(self) -> int:
        return self._connection.fileno()

    def ready(self, within_s: float) -> bool:
        """Whether a frame, or the end of the socket, comes within this time."""
        return bool(select.select([self._connection], [], [], within_s)[0])

    def send(self, message: FromWorker, text: bytes = b"", tensors: Sequence[NDArray[np.uint8]] = ()) -> None:
        start = head(message, len(text), sum(tensor.nbytes for tensor in tensors))
        parts: list[Any] = [start + text, *tensors]
        sent = self._connection.sendmsg(parts)
        for part in parts:
            rest = memoryview(part)[sent:]
            sent = max(0, sent - len(part))
            while rest:
                self._connection.sendall(rest[:_PIECE_BYTES])
                rest = rest[_PIECE_BYTES:]
                self._pause()

    def _fill(self, view: memoryview) -> bool:
        while view:
            count = self._connection.recv_into(view[:_PIECE_BYTES], 0, socket.MSG_WAITALL)
            if not count:
                return False
            view = view[count:]
            if view:
                self._pause()
        return True

    def _skip(self, size: int) -> bool:
        room = self._text.view(_KEPT_BYTES >> 4)
        while size and self._fill(part := room[: min(size, len(room))]):
            size -= len(part)
        return not size


class _FrameBuffer:
    """Aligned memory, used again for the next frame unless it was a large one."""

    def __init__(self) -> None:
        self._kept = _aligned(1 << 16)

    def view(self, size: int) -> memoryview:
        if size <= len(self._kept):
            return self._kept[:size]
        room = _aligned(size)
        if size <= _KEPT_BYTES:
            self._kept = room
        return room


def _aligned(size: int) -> memoryview:
    array = np.empty(size + _ALIGNMENT_BYTES, np.uint8)
    start = -array.ctypes.data % _ALIGNMENT_BYTES
    return array.data[start : start + size]
