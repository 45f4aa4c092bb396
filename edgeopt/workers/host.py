"""Where worker processes run: this machine. A device over the network is another `TrialHost`."""

import contextlib
import math
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol

from edgeopt import units
from edgeopt.errors import Ending, TrialError, signal_name
from edgeopt.hw.child import python_command
from edgeopt.workers.guard import Guard, kills_for_memory, usual_limit_bytes
from edgeopt.workers.tasks import TRIAL

VARIABLE = "EDGEOPT_PADDING"
# Any number of bytes below: moves pages, lines of the cache, and places within a line.
_ENVIRONMENT_BYTES, _ARGUMENT_BYTES = 8192, 1024
_OUTER = "EDGEOPT_OUTER_"
"""Before the name of a variable that a child got its own of: what it was before."""
BLAS_THREADS = "OPENBLAS_NUM_THREADS"
_OURS = ("PYTHONPATH", BLAS_THREADS)
TAIL_BYTES = 16 << 10
"""Enough for the trace of a crash and what was printed before it."""
_TRACE = re.compile(r"^Fatal Python error: .+\n\n", re.MULTILINE)
_LONGEST = 200
WORKER_MODULE = "edgeopt.workers"
NOT_STARTED = "not-started"
"""The code of the error when the system gave no process: that is the device's fault, not the model's."""
LONGEST_LINE_BYTES = 256 << 20
_CHUNK_BYTES = 1 << 16


class Padding(NamedTuple):
    """What a process is given beside what it needs."""

    environment_bytes: int = 0
    argument_bytes: int = 0

    def arguments(self) -> list[str]:
        """One more, after all others; nobody reads it."""
        return ["." * self.argument_bytes]

    def environment(self) -> dict[str, str]:
        return {VARIABLE: "." * self.environment_bytes}


UNPADDED = Padding()


def chance(seed: int | None = None) -> Random:
    """What paddings are drawn from; without a seed nobody can say what they will be."""
    return Random(seed)  # noqa: S311 - luck, and no secret


def draw(random: Random) -> Padding:
    """For one process; the next one draws again."""
    return Padding(random.randrange(_ENVIRONMENT_BYTES), random.randrange(_ARGUMENT_BYTES))


def child_environment(
    folder: Path | None, calculates: bool = True, padding: Padding | None = None
) -> dict[str, str]:
    """What a child sees; what libraries write for a while goes to the folder too, and goes with it.

    A child that does not compute with numpy gets one BLAS thread: otherwise one per core spins for a tenth
    of a second as the child starts, beside what is to be measured.
    """
    own = dict(os.environ)
    for name in _OURS:
        own.setdefault(_OUTER + name, own.get(name, ""))
    # Not the working directory, which `python -m` puts first: a numpy.py of the user's must not be imported.
    here, package = str(Path.cwd()), str(Path(__file__).resolve().parents[2])
    own["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([package, *(p for p in sys.path if p and p != here)]))
    if not calculates:
        own.setdefault(BLAS_THREADS, "1")
    if folder:
        own["TMPDIR"] = str(folder.resolve())
    # That of the process above is its own.
    own.pop(VARIABLE, None)
    if padding is not None:
        own |= padding.environment()
    return own


def outer_environment() -> dict[str, str]:
    """The user's, not that of this child: a Python of another version would import edgeopt's packages."""
    environment = dict(os.environ)
    for name in _OURS:
        outer = environment.pop(_OUTER + name, None)
        if outer is not None:
            environment.pop(name, None)
            if outer:
                environment[name] = outer
    return environment


def append_only(log: int) -> None:
    """Writers append at its end, also after it was cut."""
    if os.name == "posix":
        import fcntl

        fcntl.fcntl(log, fcntl.F_SETFL, fcntl.fcntl(log, fcntl.F_GETFL) | os.O_APPEND)


def lines_before_trace(tail: bytes) -> list[str]:
    """Returns what a process printed, without the trace by which Python's fault handler ends a crash."""
    return _TRACE.split(tail.decode(errors="replace"), maxsplit=1)[0].strip().splitlines()


def last_words(log: int) -> str:
    """The last line with text; empty if there is none, or the file cannot be read."""
    try:
        size = os.fstat(log).st_size
        tail = os.pread(log, TAIL_BYTES, max(0, size - TAIL_BYTES))
    except OSError:
        return ""
    lines = lines_before_trace(tail)
    return lines[-1].strip()[:_LONGEST] if lines else ""


class Child(Protocol):
    """A process that answers one line for each line that it is sent."""

    def send(self, line: bytes) -> None: ...
    def receive(self, timeout_s: float) -> bytes:
        """The next answer; raises TrialError when there is none, with how it ended, and it is gone then."""
        ...

    def ready(self, timeout_s: float) -> bool:
        """Waits until an answer, or the end, is there; False when the time was up first."""
        ...

    def fileno(self) -> int:
        """For `select` or `poll`: readable when an answer, or the end, is there."""
        ...

    def close(self) -> None: ...


class TrialHost(Protocol):
    def put(self, path: Path) -> str:
        """Makes a file or folder available where trials run; returns its path there.

        A remote host copies it there under the digest of its content, once; the local host has it already.
        """
        ...

    def start(self, task: str = TRIAL) -> Child:
        """A worker that imports this task first; raises TrialError with the code `NOT_STARTED` if it cannot."""
        ...


class LocalHost:
    """Workers as child processes, each with random padding; the same `seed` draws the same paddings."""

    def __init__(
        self, log_folder: Path | None = None, memory_limit_bytes: int | None = None, seed: int | None = None
    ) -> None:
        self._log_folder = log_folder
        self._memory_limit_bytes = memory_limit_bytes
        self._random = chance(seed)

    def put(self, path: Path) -> str:
        return str(path.absolute())  # a link stays one: what lies beside it may belong to it

    def start(self, task: str = TRIAL) -> Child:
        return LocalChild(task, self._log_folder, self._memory_limit_bytes, draw(self._random))


class LocalChild:
    """One child process in a process group of its own; its stderr goes to a file.

    A file, not a pipe: runtimes can write more warnings than a pipe holds, and then both sides wait for ever.
    While an answer is waited for, the group's memory is watched: beyond its limit (unless told, most of what is
    available now) it is killed, before the system has to choose whom to kill.
    """

    def __init__(
        self,
        task: str,
        log_folder: Path | None = None,
        memory_limit_bytes: int | None = None,
        padding: Padding = UNPADDED,
    ) -> None:
        self._killed_before = kills_for_memory()
        try:
            limit = usual_limit_bytes() if memory_limit_bytes is None else memory_limit_bytes
            self._start(task, log_folder, padding)
        except OSError as error:
            raise TrialError(
                f"could not be started: {error.strerror or error}",
                "The system has no more processes, files or space: check `ulimit -n`, `ulimit -u` and the "
                "free space for temporary files.",
                NOT_STARTED,
                "not-started",
            ) from None
        self._guard = Guard(self._process.pid, limit, self._log.fileno())
        # Not `select.select`, which fails for file numbers above 1023.
        self._poll = select.poll()
        self._poll.register(self.fileno(), select.POLLIN)
        self._pending = bytearray()
        self._searched = 0
        self._end_was: tuple[Ending, str] | None = None
        """How it was closed, and that in words."""

    def _start(self, task: str, log_folder: Path | None, padding: Padding) -> None:
        with contextlib.ExitStack() as undone:
            # Both are open for as long as the child lives; `close` closes them.
            self._log = undone.enter_context(tempfile.TemporaryFile(dir=log_folder, buffering=0))
            append_only(self._log.fileno())
            # Nothing is ever written to it: that its end closes with this process is the message (see `lifeline`).
            theirs, self._lifeline = os.pipe()
            undone.callback(os.close, self._lifeline)
            try:
                self._process = subprocess.Popen(
                    python_command("-P", "-u", "-m", WORKER_MODULE, str(theirs), task, *padding.arguments()),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._log,
                    start_new_session=True,
                    pass_fds=(theirs,),
                    env=child_environment(log_folder, task != TRIAL, padding),
                )
            finally:
                os.close(theirs)
            undone.pop_all()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def outside_peak_bytes(self) -> int | None:
        """The most that it and what it started held together, as seen from here while answers were waited for."""
        return self._guard.peak_bytes

    def fileno(self) -> int:
        """For `select` or `poll`: readable when an answer, or the end, is there."""
        assert self._process.stdout is not None  # noqa: S101 - it was opened as a pipe
        return self._process.stdout.fileno()

    def send(self, line: bytes) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it was opened as a pipe
        if self._end_was is not None:
            return
        # The next `receive` reports a child that has died, and how.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line.rstrip(b"\n") + b"\n")
            self._process.stdin.flush()

    def ready(self, timeout_s: float) -> bool:
        """Waits until an answer, or the end, is there; False when the time was up first."""
        if self._end_was is not None or b"\n" in self._pending[self._searched :]:
            return True
        deadline = time.monotonic() + timeout_s
        while True:
            if self._guard.due_in_s() <= 0 and self._guard.look():
                self._end("memory", f"used more than {units.size(self._guard.limit_bytes or 0)}; it was killed")
                return True
            left = max(0.0, deadline - time.monotonic())
            # Rounded up, or it would be asked over and over for the last part of a millisecond.
            if self._poll.poll(math.ceil(1e3 * min(left, self._guard.due_in_s()))):
                return True
            # What it started may still hold the pipe when it has ended itself.
            if self._process.poll() is not None or left <= 0:
                return self._process.poll() is not None

    def receive(self, timeout_s: float) -> bytes:
        deadline = time.monotonic() + timeout_s
        while (line := self._take_line()) is None:
            if not self.ready(deadline - time.monotonic()):
                self._end(*self._how_it_hangs(timeout_s))
            elif self._end_was is None:
                chunk = self._read()
                self._pending += chunk
                if not chunk:
                    self._end(*self._how_it_ended())
                elif len(self._pending) > LONGEST_LINE_BYTES:
                    self._end("nonsense", f"{self._no_answer()}, only an endless line; it was killed")
            if self._end_was is not None:
                ending, words = self._end_was
                raise TrialError(words, ending=ending)
        return line

    def close(self) -> None:
        """Ends the process and everything that it started; safe to call twice."""
        self._end("closed", "was ended")

    def _end(self, ending: Ending, words: str) -> None:
        if self._end_was is not None:
            return
        # By the second call the process is reaped, and its number may be another group's.
        self._end_was = ending, words
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._lifeline)
        for stream in (self._process.stdin, self._process.stdout, self._log):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _take_line(self) -> bytes | None:
        end = self._pending.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._pending)
            return None
        line = bytes(self._pending[:end])
        del self._pending[: end + 1]
        self._searched = 0
        return line

    def _read(self) -> bytes:
        """What is in the pipe; empty when nothing will come any more."""
        if not self._poll.poll(0):
            return b""
        return os.read(self.fileno(), _CHUNK_BYTES)

    def _how_it_hangs(self, timeout_s: float) -> tuple[Ending, str]:
        if self._pending:
            return "nonsense", f"{self._no_answer()} and no end of it within {timeout_s:.0f} s; it was killed"
        return "hung", f"hung: no answer within {timeout_s:.0f} s; it was killed"

    def _no_answer(self) -> str:
        return f"sent an invalid answer: {self._pending[:60].decode(errors='replace')!r}"

    def _how_it_ended(self) -> tuple[Ending, str]:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        code = self._process.poll()
        said = last_words(self._log.fileno())
        tail = f" ({said})" if said else ""
        if code == -signal.SIGKILL:
            held = self._guard.resident_bytes
            killed = kills_for_memory()
            sure = killed is not None and self._killed_before is not None and killed > self._killed_before
            why = "which had no memory left" if sure else "perhaps for memory"
            return "killed", f"was killed by the system, {why}{f' (it held {units.size(held)})' if held else ''}"
        if code is not None and code < 0:
            return "crashed", f"crashed: {signal_name(-code)}{tail}"
        return "exited", f"ended with exit code {code}{tail}"
