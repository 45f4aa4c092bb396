"""Makes a child process end with its parent, however the parent ends."""

import os
import queue
import signal
import sys
import threading
from typing import Any

from edgeopt.platform.processes import end_own_group, leads_group

NO_PIPE = -1


class Lifeline:
    """A pipe that nothing is ever written to: a child notices the end of this process when it closes.

    Windows passes no pipes to a child but its standard streams: there its stdin alone has this use.
    """

    def __init__(self) -> None:
        self.child_end, self._own_end = (NO_PIPE, NO_PIPE) if sys.platform == "win32" else os.pipe()
        """The file number in the child, or `NO_PIPE`."""

    @property
    def options(self) -> dict[str, Any]:
        """The options of `Popen` that pass the child's end on."""
        return {} if self.child_end == NO_PIPE else {"pass_fds": (self.child_end,)}

    def started(self) -> None:
        """Closes the child's end here, once the child has it or could not be started."""
        self.child_end = _closed(self.child_end)

    def close(self) -> None:
        self._own_end = _closed(self._own_end)


def _closed(number: int) -> int:
    if number != NO_PIPE:
        os.close(number)
    return NO_PIPE


def end_group_with(pipe: int) -> None:
    """Asks the Linux kernel to kill this process's group when nobody holds the pipe's other end any more.

    It does so even inside a long native call. PR_SET_PDEATHSIG would spare this process's own children, and
    would strike when the parent's thread ends instead of the parent.
    """
    if sys.platform != "linux" or pipe == NO_PIPE or not leads_group():
        return
    import fcntl

    fcntl.fcntl(pipe, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)


def requests_until_parent_ends() -> "queue.SimpleQueue[bytes]":
    """The lines on stdin, as they come; when stdin closes, this process and its group end at once."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin.buffer:
            lines.put(line)
        end_own_group()

    threading.Thread(target=read, daemon=True, name="lifeline").start()
    return lines
