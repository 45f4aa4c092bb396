"""Where trials run. Here the local machine; a device over the network is a second file with the same two seams."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Protocol

from edgeopt.errors import TrialError, signal_name

TRIAL_MODULE = "edgeopt.bench.trial"
_STDERR_TAIL_BYTES = 4096


class Child(Protocol):
    """A process that answers one line for each line that it is sent."""

    def send(self, line: bytes) -> None: ...
    def receive(self, timeout_s: float) -> bytes:
        """The next answer; raises TrialError when the process crashed or took longer, and it is gone then."""
        ...

    def close(self) -> None: ...


class TrialHost(Protocol):
    def put(self, path: Path) -> str:
        """Makes a file or folder available where trials run; returns its path there."""
        ...

    def start(self, module: str = TRIAL_MODULE) -> Child: ...


class LocalHost:
    """Trials as child processes of this one."""

    def __init__(self, log_folder: Path | None = None) -> None:
        self._log_folder = log_folder

    def put(self, path: Path) -> str:
        return str(path.absolute())  # a link stays one: what lies beside it may belong to it

    def start(self, module: str = TRIAL_MODULE) -> Child:
        return LocalChild(module, self._log_folder)


class LocalChild:
    """One child process in a process group of its own; its stderr goes to a file.

    A file, not a pipe: runtimes can write more warnings than a pipe holds, and then both sides wait for ever.
    """

    def __init__(self, module: str, log_folder: Path | None = None) -> None:
        # Open for as long as the child lives; `close` closes it.
        self._log: IO[bytes] = tempfile.TemporaryFile(dir=log_folder)  # noqa: SIM115
        # Nothing is ever written to it: that its end closes with this process is the message (see `lifeline`).
        theirs, self._lifeline = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-u", "-m", module, str(theirs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
            pass_fds=(theirs,),
            env=child_environment(log_folder),
        )
        os.close(theirs)
        self._pending = b""
        self._closed = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        """For `select`: readable when an answer, or the end, is there."""
        assert self._process.stdout is not None  # noqa: S101 - it was opened as a pipe
        return self._process.stdout.fileno()

    def send(self, line: bytes) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it was opened as a pipe
        # A child that has died is told by the next `receive`, together with how it died.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line.rstrip(b"\n") + b"\n")
            self._process.stdin.flush()

    def ready(self, timeout_s: float) -> bool:
        """Waits until an answer, or the end, is there; False when the time was up first."""
        return b"\n" in self._pending or bool(select.select([self], [], [], max(0.0, timeout_s))[0])

    def receive(self, timeout_s: float) -> bytes:
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self], [], [], left)[0]:
                self.close()
                raise TrialError(f"hung: no answer within {timeout_s:.0f} s; it was killed")
            chunk = os.read(self.fileno(), 1 << 16)
            if not chunk:
                raise TrialError(self._how_it_ended())
            self._pending += chunk
        line, self._pending = self._pending.split(b"\n", 1)
        return line

    def close(self) -> None:
        """Ends the process and everything that it started; safe to call twice."""
        if self._closed:
            return
        # By the second call the process is reaped, and its number may be another group's.
        self._closed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._lifeline)
        for stream in (self._process.stdin, self._process.stdout, self._log):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _how_it_ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        code = self._process.poll()
        tail = self._stderr_tail()
        self.close()
        if code is not None and code < 0:
            return f"crashed: {signal_name(-code)}{tail}"
        return f"ended with exit code {code}{tail}"

    def _stderr_tail(self) -> str:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - _STDERR_TAIL_BYTES))
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return f" ({lines[-1].strip()[:200]})" if lines else ""


def child_environment(folder: Path | None) -> dict[str, str]:
    """What a child sees; what libraries write for a while goes to the folder too, and goes with it."""
    temporary = {"TMPDIR": str(folder.resolve())} if folder else {}
    # Not the working directory, which `python -m` puts first: a numpy.py of the user's must not be imported.
    here, package = str(Path.cwd()), str(Path(__file__).resolve().parents[2])
    places = dict.fromkeys([package, *(p for p in sys.path if p and p != here)])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places), **temporary}
