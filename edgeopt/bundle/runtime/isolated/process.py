"""The session's end of its worker process."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Sequence

from edgeopt.bundle.runtime.isolated import messages
from edgeopt.bundle.runtime.isolated.messages import Answer, Request
from edgeopt.bundle.runtime.isolated.segments import Segment
from edgeopt.hw.child import python_command

_MODULE = "edgeopt.bundle.runtime.isolated.worker"
# It imports what this process would. -P: nothing of the working directory that this process would not see.
_PROGRAM = f"import json, sys; sys.path[:] = json.loads(sys.argv.pop()); from {_MODULE} import main; main()"
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"
_GOODBYE_S = 1.0
_CPUS = os.cpu_count() or 1
_live: dict[int, int] = {}
"""The threads of each worker of this process, by its process id."""


class WorkerProcess:
    """Raises OSError where it cannot be started. `threads`: of its runtime; 0 for all cores."""

    def __init__(self, threads: int = 0) -> None:
        self._connection, theirs = socket.socketpair()
        self._inbox = messages.Inbox(self._connection)
        self.known: set[int] = set()
        """The segments that it has mapped."""
        try:
            with theirs:
                # A new program, never a fork: threads and locks of this process are none of its business. Its
                # stdin is a lifeline: the kernel ends it when this process ends, however that happens.
                self._process = subprocess.Popen(
                    python_command("-P", "-c", _PROGRAM, str(theirs.fileno()), json.dumps(sys.path)),
                    stdin=subprocess.PIPE,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                    # The worker calculates nothing with numpy, whose threads would spin as it starts.
                    env={_BLAS_THREADS: "1", **os.environ},
                )
        except BaseException:
            self._connection.close()
            raise

        self.end = weakref.finalize(self, _end, self._process, self._connection, os.getpid())
        """Ends it and what it started, and waits for that; also when this is dropped, and at the program's end."""
        _live[self._process.pid] = threads or _CPUS

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, request: Request, segments: Sequence[Segment] = ()) -> None:
        messages.send(self._connection, request, [segment.file for segment in segments])
        self.known.update(segment.number for segment in segments)

    @property
    def polls(self) -> bool:
        """Whether to poll for messages: not where that takes a core from the threads of a worker."""
        return hasattr(os, "sched_yield") and sum(list(_live.values())) < _CPUS

    def receive(self, limit_s: float) -> Answer:
        """Raises TimeoutError, or EOFError or OSError where it has ended."""
        self._inbox.polls = self.polls
        return messages.decode_answer.decode(self._inbox.receive(limit_s))

    def abandon(self) -> None:
        """In a fork: lets go of the worker of the parent, which must live no longer than that."""
        self.end.detach()
        _live.pop(self._process.pid, None)
        self._connection.close()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.returncode = 0  # not a child of this process: there is nothing to wait for

    def exit_code(self) -> int | None:
        """Of a worker that has closed its connection; None if it does not end."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(_GOODBYE_S)
        return None


def _end(process: "subprocess.Popen[bytes]", connection: socket.socket, owner: int) -> None:
    # A fork of the program that started it ends earlier, and must leave it.
    if os.getpid() != owner:
        return
    _live.pop(process.pid, None)
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    connection.close()
    if process.stdin is not None:
        process.stdin.close()
