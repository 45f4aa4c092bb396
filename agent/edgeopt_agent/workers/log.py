"""The output of a worker, written to a file that cannot grow without end."""

import asyncio
from pathlib import Path
from typing import BinaryIO

from edgeopt.workers.host import TAIL_BYTES, lines_before_trace

MAX_BYTES = 1 << 20
_WARNING = "[W:onnxruntime"


class WorkerLog(asyncio.Protocol):
    """Reads the pipe to the end, whatever comes: a worker never waits for somebody to read its warnings."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO | None = None
        self._left = MAX_BYTES
        self._tail = b""
        self.complete = asyncio.Event()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("wb", buffering=0)
        except OSError:
            self._left = 0  # a disk that cannot be written is no reason not to serve

    def data_received(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-TAIL_BYTES:]
        if self._file is not None and self._left > 0:
            try:
                self._file.write(data[: self._left])
            except OSError:
                self._left = 0  # a full disk must not end what serves
        self._left -= len(data)

    def connection_lost(self, _error: Exception | None) -> None:
        if self._file is not None:
            self._file.close()
        self.complete.set()

    def last_line(self) -> str:
        """Returns the last line but warnings: a confined ONNX Runtime warns of telemetry that it cannot keep."""
        lines = [line for line in lines_before_trace(self._tail) if _WARNING not in line]
        return lines[-1].strip()[:200] if lines else ""
