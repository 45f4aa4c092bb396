"""Records on standard output: each goes out as one write with its line's end, and never in part."""

import io
import os
import select
import sys
import time
from pathlib import Path

from edgeopt.cli import signals
from edgeopt.errors import writing_to

PATIENCE_S = 3.0
"""The time that the reader of an ending command has to take the rest of a record."""
_LOOK_MS = 100
# Bytes that a pipe with room accepts without blocking.
_PIECE_BYTES = getattr(select, "PIPE_BUF", 512)


def standard_output() -> str:
    """The file that standard output goes into, where the system tells."""
    try:
        return str(Path(f"/proc/self/fd/{sys.stdout.fileno()}").readlink())
    except (OSError, ValueError):  # io.UnsupportedOperation is both
        return "standard output"


class WholeLines:
    """Writes past the buffers of `sys.stdout`, so that nothing waits in one when a signal comes.

    Where the reader takes only part of a record, the rest follows before anything else happens. A reader that
    takes nothing any more while a signal wants the command to end is treated as one that has gone.
    """

    def __init__(self) -> None:
        self._torn = False

    def write(self, line: str) -> None:
        """Raises BrokenPipeError where nobody reads, DiskFullError where it goes into a file with no room."""
        with writing_to(standard_output()):
            sys.stdout.flush()  # what was printed before comes before
        try:
            descriptor = sys.stdout.fileno()
        except io.UnsupportedOperation:  # a caller in this process put something else there
            with signals.held():
                sys.stdout.write(f"{line}\n")
            return
        if not signals.pressing():
            _wait_for_room(descriptor)  # here a signal may still be raised: nothing is out yet
        with signals.held(), writing_to(standard_output()):
            self._write(descriptor, memoryview(f"{line}\n".encode()))

    def _write(self, descriptor: int, rest: memoryview) -> None:
        if self._torn:
            raise BrokenPipeError
        whole = len(rest)
        try:
            while rest:
                if len(rest) < whole or signals.pressing():
                    _wait_for_room(descriptor)
                rest = rest[_written(descriptor, rest) :]
        except OSError:
            self._torn = len(rest) < whole
            raise


def _written(descriptor: int, rest: memoryview) -> int:
    """A signal ends a write that waits for room early, with part of it done; that is where the loop goes on."""
    try:
        return os.write(descriptor, rest[:_PIECE_BYTES] if signals.pressing() else rest)
    except BlockingIOError:  # a pipe that somebody has set not to wait
        _wait_for_room(descriptor)
        return 0


def _wait_for_room(descriptor: int) -> None:
    """Returns when something can be written, or nobody reads; raises BrokenPipeError after the patience."""
    if not hasattr(select, "poll"):
        return
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    end: float | None = None
    while not poll.poll(_LOOK_MS):
        if signals.pressing():
            end = end or time.monotonic() + PATIENCE_S
            if time.monotonic() > end:
                raise BrokenPipeError
