"""A model in a worker process, as the session of a backend that looks like any other."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from msgspec.structs import replace as replace_fields

from edgeopt.backends.base import Array, Backend, Feeds, Options, Placement, TensorInfo, closed, prepare
from edgeopt.bundle.runtime.forked import watch_forks
from edgeopt.bundle.runtime.isolated import messages
from edgeopt.bundle.runtime.isolated.messages import (
    NO_CHANGES,
    Answer,
    Collect,
    Execute,
    Executed,
    Load,
    Loaded,
    Request,
    Segment,
    SegmentPool,
    Segments,
    TooLarge,
    flat_texts,
    planned,
    write,
)
from edgeopt.errors import EdgeoptError, UsageError, WorkerError, error_with_code, signal_name
from edgeopt.hw.child import python_command
from edgeopt.workers.protocol import FAILED, NO_MEMORY, NO_PACKAGE, Failed

_MODULE = "edgeopt.bundle.runtime.isolated.worker"
# It imports what this process would. -P: nothing of the working directory that this process would not see.
_PROGRAM = f"import json, sys; sys.path[:] = json.loads(sys.argv.pop()); from {_MODULE} import main; main()"
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"
_GOODBYE_S = 1.0
_CPUS = os.cpu_count() or 1
_live: dict[int, int] = {}
"""The threads of each worker of this process, by its process id."""
_MACHINE_SHARE = 0.8


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
        """Releases the parent's worker in a fork, so that the worker can end with the parent."""
        self.end.detach()
        _live.pop(self._process.pid, None)
        self._connection.close()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.returncode = 0  # not a child of this process: there is nothing to wait for

    def exit_code(self) -> int | None:
        """Returns the exit code of a worker that has closed its connection, or None if it does not end."""
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


@dataclass(frozen=True, slots=True)
class Isolation:
    """Limits of a worker process: what goes beyond them is the error of one request."""

    time_limit_s: float = 30.0
    """Limit for one request, from when the worker begins with it."""
    load_limit_s: float = 300.0
    memory_limit_bytes: int | None = None
    """Maximum memory that the worker may allocate; by default 80 % of the machine's memory."""
    cpus: tuple[int, ...] = ()
    """The logical CPUs that the worker runs on, on Linux; by default those of this process."""

    def __post_init__(self) -> None:
        memory = self.memory_limit_bytes
        if self.time_limit_s <= 0 or self.load_limit_s <= 0 or (memory is not None and memory <= 0):
            raise UsageError(
                "The limits of a worker must be above zero.",
                "Change time_limit_s, load_limit_s or memory_limit_bytes.",
            )
        if not self.cpus:
            return
        if not hasattr(os, "sched_setaffinity"):
            raise UsageError("This system binds no process to CPUs.", "Leave 'cpus' of edgeopt.Isolation out.")
        allowed = os.sched_getaffinity(0)
        if foreign := sorted(set(self.cpus) - allowed):
            raise UsageError(
                f"CPU {foreign[0]} is not available to this process.",
                f"Choose among its CPUs: {', '.join(map(str, sorted(allowed)))}.",
            )


def isolated(backend: Backend, isolation: Isolation) -> Backend:
    """The same backend, but each of its sessions has a worker process; raises UsageError on Windows."""
    if not hasattr(socket, "send_fds"):
        raise UsageError(
            "Sessions in worker processes need a system that passes files between processes: Linux or macOS.",
            "Leave 'isolate' out.",
        )

    def load(
        path: Path, options: Options, *, strict: bool = False, custom_ops: tuple[str, ...] = ()
    ) -> IsolatedSession:
        memory = isolation.memory_limit_bytes or int(
            os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _MACHINE_SHARE
        )
        request = Load(
            backend.name, str(path.absolute()), dict(options), strict, custom_ops, memory, isolation.cpus
        )
        return IsolatedSession(path.name, request, isolation)

    return replace(backend, load=load)


class IsolatedSession:
    """One request at a time runs in the worker; the inputs of the next are copied meanwhile.

    A worker that ends or hangs is the error of its request, and the next worker starts at once.
    """

    def __init__(self, name: str, request: Load, isolation: Isolation) -> None:
        self._name = name
        self._request = request
        self._isolation = isolation
        self._pool = SegmentPool()
        self._lock = threading.Lock()
        """Held from when a request goes to the worker until its answer is here."""
        self._closed = False
        self._worker: WorkerProcess | None = None
        self._ready = False
        self._output_bytes = 0
        """Size of the largest outputs so far."""
        try:
            loaded = self._load()
        except BaseException:
            self.close()
            raise
        watch_forks(self)
        self.inputs: tuple[TensorInfo, ...] = loaded.inputs
        self.outputs: tuple[TensorInfo, ...] = loaded.outputs
        self.placement: Placement | None = loaded.placement

    @property
    def memory_bytes(self) -> int | None:
        """Resident memory of the worker; None while there is none."""
        import psutil

        worker = self._worker
        try:
            return None if worker is None else int(psutil.Process(worker.pid).memory_info().rss)
        except psutil.Error:
            return None

    def run(self, feeds: Feeds) -> dict[str, Array]:
        if self._closed:
            raise closed()
        arrays = self._arrays(feeds)
        places, size_bytes = planned(arrays)
        inputs = self._pool.take(size_bytes)
        try:
            write(inputs.memory, places, arrays)
            with self._lock:
                if self._closed:
                    raise closed()
                if not self._ready:
                    self._load()
                outputs = self._pool.take(self._output_bytes)
                polls = self._worker is not None and self._worker.polls
                request = Execute(NO_CHANGES, inputs.number, places, outputs.number, polls)
                answer = self._ask(request, (inputs, outputs))
                if isinstance(answer, TooLarge):
                    self._output_bytes = answer.size_bytes
                    outputs = self._pool.take(answer.size_bytes)
                    self._send(Collect(NO_CHANGES, outputs.number), (outputs,))
                    answer = self._answer(self._isolation.time_limit_s, "while it returned the outputs")
        finally:
            self._pool.give_back(inputs)
        if isinstance(answer, Failed):
            raise self._error(answer)
        assert isinstance(answer, Executed)  # noqa: S101 - what a worker answers to Execute and Collect
        return self._pool.results(outputs, answer.outputs)

    def close(self) -> None:
        """Waits for the request under way; no process and no shared memory but kept results is left."""
        with self._lock:
            self._closed = True
            self._end()
            self._pool = SegmentPool()

    def before_fork(self) -> None:
        self._pool.before_fork()

    def after_fork(self) -> None:
        """The worker is that of the parent: the next request here starts one."""
        self._lock = threading.Lock()
        worker, self._worker, self._ready = self._worker, None, False
        self._pool = SegmentPool()
        if worker is not None:
            worker.abandon()

    def _arrays(self, feeds: Feeds) -> dict[str, Array]:
        arrays = {name: np.asarray(array) for name, array in feeds.items()}
        if all(array.dtype.kind in "fiubcV" for array in arrays.values()):
            return arrays
        # Texts: what else an array of objects may hold, no worker could read.
        return {name: flat_texts(name, array) for name, array in prepare(self.inputs, feeds).items()}

    def _load(self) -> Loaded:
        """Waits for a worker with the model; the one that was started last, where it lives."""
        if self._worker is None:
            self._start()
        answer = self._answer(self._isolation.load_limit_s, "while it loaded the model")
        if isinstance(answer, Failed):
            self._end()
            raise self._error(answer)
        assert isinstance(answer, Loaded)  # noqa: S101 - what a worker answers to Load
        self._ready = True
        return answer

    def _start(self) -> None:
        try:
            self._worker = WorkerProcess(int(str(self._request.options.get("threads", 0))))
            self._worker.send(self._request)
        except OSError as error:
            self._end()
            raise WorkerError(
                f"No worker for '{self._name}' could be started: {error}.",
                "End other processes or free memory, then try again.",
                ending="not-started",
            ) from error

    def _ask(self, request: Execute, segments: tuple[Segment, ...]) -> Answer:
        try:
            self._send(request, segments)
        except OSError:
            # It has ended since the last request, so this one goes to the next worker.
            self._replace()
            self._load()
            self._send(request, segments)
        answer = self._answer(self._isolation.time_limit_s, "while it ran this request")
        if isinstance(answer, Failed) and answer.code == NO_MEMORY:
            self._replace()
        return answer

    def _send(self, request: Execute | Collect, segments: tuple[Segment, ...]) -> None:
        """Tells the worker of the memory too that it does not know yet, and of what it may forget."""
        worker, gone = self._worker, self._pool.gone
        assert worker is not None  # noqa: S101 - `_load` has made one
        new = [segment for segment in segments if segment.number not in worker.known]
        if new or gone:
            dropped = tuple(gone.popleft() for _ in range(len(gone)))
            worker.known.difference_update(dropped)
            changes = Segments(tuple((segment.number, segment.size_bytes) for segment in new), dropped)
            request = replace_fields(request, segments=changes)
        worker.send(request, new)

    def _answer(self, limit_s: float, when: str) -> Answer:
        worker = self._worker
        assert worker is not None  # noqa: S101 - the callers have one
        try:
            return worker.receive(limit_s)
        except TimeoutError as error:
            self._replace()
            raise WorkerError(
                f"The worker of '{self._name}' gave no answer within {limit_s:g} s, {when}, and was ended.",
                "Send the next request; for models that take longer, raise the limits of edgeopt.Isolation.",
                ending="hung",
            ) from error
        except (EOFError, OSError) as error:
            code = worker.exit_code()
            self._replace()
            raise self._ended(code, when) from error
        except BaseException:
            # Interrupted: the answer would be taken for that of the next request.
            self._replace()
            raise

    def _ended(self, code: int | None, when: str) -> WorkerError:
        again = "Send the next request: a new worker is starting."
        if code is not None and code < 0:
            name = signal_name(-code)
            if name == "SIGKILL":
                return WorkerError(
                    f"The worker of '{self._name}' was killed {when}; the system does this if memory runs out.",
                    f"{again} Free memory, or use a smaller batch, if it happens again.",
                    ending="killed",
                )
            return WorkerError(f"The worker of '{self._name}' crashed ({name}) {when}.", again, ending="crashed")
        return WorkerError(
            f"The worker of '{self._name}' ended (exit code {code}) {when}.", again, ending="exited"
        )

    def _error(self, failed: Failed) -> EdgeoptError:
        if failed.code == NO_MEMORY:
            limit = self._request.memory_limit_bytes // 2**20
            return WorkerError(
                f"The worker of '{self._name}' ran out of memory; its limit is {limit} MiB.",
                "Use a smaller batch, or raise memory_limit_bytes of edgeopt.Isolation.",
                ending="memory",
            )
        if failed.code in {FAILED, NO_PACKAGE}:
            return WorkerError(
                f"The worker of '{self._name}' failed: {failed.message.rstrip('.')}.",
                "Run the model without 'isolate' to see where the error comes from.",
            )
        return error_with_code(failed.code, failed.message, failed.hint)

    def _replace(self) -> None:
        """Ends the worker; after one that had loaded, the next starts now and loads before it is asked."""
        was_ready = self._ready
        self._end()
        if was_ready and not self._closed:
            try:
                self._start()
            except WorkerError:
                self._worker = None  # the next request tries again, and says why it cannot

    def _end(self) -> None:
        self._ready = False
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()
