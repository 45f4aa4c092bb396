"""Makes a child process end with its parent, however the parent ends."""

import fcntl
import os
import queue
import signal
import sys
import threading


def end_group_with(pipe: int) -> None:
    """Asks the Linux kernel to kill this process's group when nobody holds the pipe's other end any more.

    It does so even inside a long native call. PR_SET_PDEATHSIG would spare this process's own children, and
    would strike when the parent's thread ends instead of the parent.
    """
    if not hasattr(fcntl, "F_SETSIG") or os.getpgrp() != os.getpid():
        return
    fcntl.fcntl(pipe, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)


def requests_until_parent_ends() -> "queue.SimpleQueue[bytes]":
    """The lines on stdin, as they come; when stdin closes, this process and its group end at once."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin.buffer:
            lines.put(line)
        end_group()

    threading.Thread(target=read, daemon=True, name="lifeline").start()
    return lines


def end_group() -> None:
    """Ends this process and, where it leads a group of its own, every process that it started."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)
