"""Makes a child process end with its parent, however the parent ends."""

import os
import queue
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Asks the Linux kernel to kill this process when its parent dies, even inside a long native call."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


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
