"""Worker processes on this machine; a device over the network is another `TrialHost`."""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol

from edgeopt import units
from edgeopt.errors import Ending, TrialError
from edgeopt.hw.child import python_command
from edgeopt.platform.child_job import ChildJob
from edgeopt.platform.files import append_only, read_end
from edgeopt.platform.lifeline import Lifeline
from edgeopt.platform.memory import kills_for_memory
from edgeopt.platform.pipes import open_reader
from edgeopt.platform.processes import crash_name, end_group, group_options, was_killed
from edgeopt.workers.guard import Guard, usual_limit_bytes
from edgeopt.workers.tasks import TRIAL

VARIABLE = "EDGEOPT_PADDING"
# Paddings of any size below these move pages, cache lines, and addresses within a line.
_ENVIRONMENT_BYTES, _ARGUMENT_BYTES = 8192, 1024
_OUTER = "EDGEOPT_OUTER_"
"""Prefix of the variables that keep the user's values of those that a child gets from edgeopt."""
BLAS_THREADS = "OPENBLAS_NUM_THREADS"
_OURS = ("PYTHONPATH", BLAS_THREADS)
TAIL_BYTES = 16 << 10
"""Enough bytes for the trace of a crash and the output before it."""
_TRACE = re.compile(r"^Fatal Python error: .+\n\n", re.MULTILINE)
_LONGEST = 200
WORKER_MODULE = "edgeopt.workers"
NOT_STARTED = "not-started"
"""The error code if the system could not start a process, for which the model is not responsible."""
LONGEST_LINE_BYTES = 256 << 20
_CHUNK_BYTES = 1 << 16


class Padding(NamedTuple):
    """Unused bytes in the environment and arguments of a process, which move the addresses in its memory."""

    environment_bytes: int = 0
    argument_bytes: int = 0

    def arguments(self) -> list[str]:
        """Returns one more argument, to append to the others; nothing reads it."""
        return ["." * self.argument_bytes]

    def environment(self) -> dict[str, str]:
        return {VARIABLE: "." * self.environment_bytes}


UNPADDED = Padding()


def chance(seed: int | None = None) -> Random:
    """Returns the random generator for paddings; without a seed it is unpredictable."""
    return Random(seed)  # noqa: S311 - luck, and no secret


def draw(random: Random) -> Padding:
    """Draws the padding for one process."""
    return Padding(random.randrange(_ENVIRONMENT_BYTES), random.randrange(_ARGUMENT_BYTES))


def child_environment(
    folder: Path | None, calculates: bool = True, padding: Padding | None = None
) -> dict[str, str]:
    """Returns the environment of a child, with its temporary files in `folder` if there is one.

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
    # The padding of this process is not passed on.
    own.pop(VARIABLE, None)
    if padding is not None:
        own |= padding.environment()
    return own


def outer_environment() -> dict[str, str]:
    """Returns the user's environment, without edgeopt's paths, which a Python of another version cannot use."""
    environment = dict(os.environ)
    for name in _OURS:
        outer = environment.pop(_OUTER + name, None)
        if outer is not None:
            environment.pop(name, None)
            if outer:
                environment[name] = outer
    return environment


def lines_before_trace(tail: bytes) -> list[str]:
    """Returns what a process printed, without the trace by which Python's fault handler ends a crash."""
    return _TRACE.split(tail.decode(errors="replace"), maxsplit=1)[0].strip().splitlines()


def last_words(log: int) -> str:
    """Returns the last line of a log with text; empty if there is none, or the file cannot be read."""
    try:
        tail = read_end(log, TAIL_BYTES)
    except OSError:
        return ""
    lines = lines_before_trace(tail)
    return lines[-1].strip()[:_LONGEST] if lines else ""


class Child(Protocol):
    """A process that answers each line that it receives with one line."""

    def send(self, line: bytes) -> None: ...
    def receive(self, timeout_s: float) -> bytes:
        """Returns the next answer; raises TrialError, with the process ended, if there is none."""
        ...

    def ready(self, timeout_s: float) -> bool:
        """Waits until there is an answer or the process has ended; returns False if the time is up first."""
        ...

    def fileno(self) -> int:
        """Returns a file number for `select` or `poll`, which is readable once there is an answer or the end."""
        ...

    def close(self) -> None: ...


class TrialHost(Protocol):
    def put(self, path: Path) -> str:
        """Makes a file or folder available where trials run; returns its path there.

        A remote host copies it there under the digest of its content, once; the local host has it already.
        """
        ...

    def start(self, task: str = TRIAL) -> Child:
        """Starts a worker that imports this task first; raises TrialError with code `NOT_STARTED` if it cannot."""
        ...


class LocalHost:
    """Host of workers as child processes, each with random padding; the same `seed` gives the same paddings."""

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

    The file replaces a pipe, because runtimes can write more warnings than a pipe holds, and then both sides
    would wait for ever. The group's memory is checked while the caller waits for an answer: over its limit (by
    default most of the memory available now) the group is killed, before the system chooses a process to kill.
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
        self._reader = open_reader(self.fileno(), _CHUNK_BYTES)
        self._pending = bytearray()
        self._searched = 0
        self._end_was: tuple[Ending, str] | None = None
        """The kind of end, with its description; None while the process runs."""

    def _start(self, task: str, log_folder: Path | None, padding: Padding) -> None:
        with contextlib.ExitStack() as undone:
            # Both are open for as long as the child lives; `close` closes them.
            self._log = undone.enter_context(tempfile.TemporaryFile(dir=log_folder, buffering=0))
            append_only(self._log.fileno())
            self._lifeline = Lifeline()
            undone.callback(self._lifeline.close)
            number = str(self._lifeline.child_end)
            try:
                self._process = subprocess.Popen(
                    python_command("-P", "-u", "-m", WORKER_MODULE, number, task, *padding.arguments()),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._log,
                    **group_options(),
                    **self._lifeline.options,
                    env=child_environment(log_folder, task != TRIAL, padding),
                )
                self._job = ChildJob(self._process.pid)
            finally:
                self._lifeline.started()
            undone.pop_all()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def outside_peak_bytes(self) -> int | None:
        """The most memory of the process and its children together, as checked during waits for answers."""
        return self._guard.peak_bytes

    def fileno(self) -> int:
        """Returns a file number for `select` or `poll`, which is readable once there is an answer or the end."""
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
        """Waits until there is an answer or the process has ended; returns False if the time is up first."""
        if self._end_was is not None or b"\n" in self._pending[self._searched :]:
            return True
        deadline = time.monotonic() + timeout_s
        while True:
            if self._guard.due_in_s() <= 0 and self._guard.look():
                self._end("memory", f"used more than {units.size(self._guard.limit_bytes or 0)}; it was killed")
                return True
            left = max(0.0, deadline - time.monotonic())
            if self._reader.wait(min(left, self._guard.due_in_s())):
                return True
            # A child of the process may still hold the pipe after the process has ended.
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
        """Ends the process and all its children; safe to call twice."""
        self._end("closed", "was ended")

    def _end(self, ending: Ending, words: str) -> None:
        if self._end_was is not None:
            return
        # By the second call the process is reaped, and its number may be another group's.
        self._end_was = ending, words
        end_group(self._process.pid)
        self._process.wait()
        self._job.close()
        self._lifeline.close()
        self._reader.close()
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
        """Returns the bytes in the pipe; empty if no more will come."""
        return self._reader.read() if self._reader.wait(0) else b""

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
        if was_killed(code):
            held = self._guard.resident_bytes
            killed = kills_for_memory()
            sure = killed is not None and self._killed_before is not None and killed > self._killed_before
            why = "which had no memory left" if sure else "perhaps for memory"
            return "killed", f"was killed by the system, {why}{f' (it held {units.size(held)})' if held else ''}"
        if crash := crash_name(code):
            return "crashed", f"crashed: {crash}{tail}"
        return "exited", f"ended with exit code {code}{tail}"
