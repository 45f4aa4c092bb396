"""Cores of a worker's threads: the agent tells the kernel which threads are the worker's; no filter can.

Runtimes bind a thread to cores by the thread's number. Any process of the same user has such numbers.
"""

import asyncio
import ctypes
import errno
import fcntl
import os
import select
import socket
import struct
from contextlib import suppress

_RECEIVE, _SEND = 0xC0502100, 0xC0182101
"""Requests of the kernel's `ioctl` for a filter's listener."""
_REQUEST = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
_CONTINUE = 1
_MAX_ANSWERS = 4096
"""A worker that asks more often keeps the agent from its work."""


class ThreadCores:
    """The agent's side: lets a worker choose the cores of its own threads."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection, self._pid = connection, pid
        self._listener = -1
        self._left = _MAX_ANSWERS
        self._loop.add_reader(connection, self._take_listener)

    def close(self) -> None:
        """Stops the service; calls that come after it fail in the worker."""
        if self._connection.fileno() >= 0:
            self._loop.remove_reader(self._connection)
            self._connection.close()
        if self._listener >= 0:
            self._loop.remove_reader(self._listener)
            os.close(self._listener)
            self._listener = -1

    def _take_listener(self) -> None:
        found: list[int] = []
        with suppress(OSError):
            _, found, _, _ = socket.recv_fds(self._connection, 1, 1)
        # Only one: the next would come from a model.
        self._loop.remove_reader(self._connection)
        self._connection.close()
        if found:
            self._listener = found[0]
            os.set_inheritable(self._listener, False)
            self._loop.add_reader(self._listener, self._answer)

    def _answer(self) -> None:
        waiting = select.poll()
        waiting.register(self._listener, select.POLLIN)
        if not any(events & select.POLLIN for _, events in waiting.poll(0)) or not self._left:
            self.close()  # the process is gone, or asks without end
            return
        self._left -= 1
        request = bytearray(_REQUEST.size)
        # The thread that asked may have ended by now.
        with suppress(OSError):
            fcntl.ioctl(self._listener, _RECEIVE, request)
            number, *_, thread, _, _, _, _, _ = _REQUEST.unpack(request)
            own = os.path.exists(f"/proc/{self._pid}/task/{ctypes.c_int(thread & 0xFFFFFFFF).value}")  # noqa: PTH110
            if own:
                with suppress(OSError):  # before Linux 5.5
                    fcntl.ioctl(self._listener, _SEND, _ANSWER.pack(number, 0, 0, _CONTINUE))
                    return
            fcntl.ioctl(self._listener, _SEND, _ANSWER.pack(number, 0, -errno.EPERM, 0))


def send_listener(connection: socket.socket, listener: int) -> None:
    """Gives the agent the listener of this process's filter, which keeps none: a model could answer itself."""
    try:
        socket.send_fds(connection, [b"."], [listener])
    finally:
        os.close(listener)
