"""The process that holds the model: answers one request after another until its session closes; see `messages`."""

import contextlib
import mmap
import os
import resource
import socket
import sys
from pathlib import Path

from edgeopt.backends import backend_named
from edgeopt.backends.base import Array, Session
from edgeopt.bundle.runtime.isolated import messages
from edgeopt.bundle.runtime.isolated.messages import (
    Answer,
    Collect,
    Execute,
    Executed,
    Load,
    Loaded,
    Request,
    TooLarge,
)
from edgeopt.platform import lifeline
from edgeopt.workers.protocol import failure_of

_STACK_BYTES = 8 << 20


class Worker:
    """One model and the shared memory of its session."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._memory: dict[int, mmap.mmap] = {}
        self._outputs: dict[str, Array] = {}
        """Outputs that did not fit, until they are collected."""

    def answer(self, request: Request, files: list[int]) -> Answer:
        try:
            if isinstance(request, Load):
                return self._load(request)
            self._update(request.segments, files)
            if isinstance(request, Execute):
                assert self._session is not None  # noqa: S101 - the session loads first
                found = self._session.run(messages.read(self._memory[request.inputs], request.feeds))
                self._outputs = {name: messages.flat_texts(name, value) for name, value in found.items()}
            return self._written(request)
        except Exception as error:  # noqa: BLE001 - the process's edge: whatever a library raises is an answer
            return failure_of(error)

    def _load(self, request: Load) -> Loaded:
        _limit_memory(request.memory_limit_bytes)
        if request.cpus:
            # Before the runtime starts threads, which inherit it; memory then comes from these CPUs' node.
            os.sched_setaffinity(0, request.cpus)
        self._session = session = backend_named(request.backend).load(
            Path(request.model_path), request.options, strict=request.strict, custom_ops=request.custom_ops
        )
        return Loaded(session.inputs, session.outputs, session.placement)

    def _update(self, changes: messages.Segments, files: list[int]) -> None:
        if changes == messages.NO_CHANGES:
            return
        for number in changes.gone:
            self._memory.pop(number, None)
        for (number, size_bytes), file in zip(changes.new, files, strict=True):
            self._memory[number] = mmap.mmap(file, size_bytes)
            os.close(file)

    def _written(self, request: Execute | Collect) -> Executed | TooLarge:
        memory = self._memory[request.outputs]
        places, size_bytes = messages.planned(self._outputs)
        if size_bytes > len(memory):
            return TooLarge(size_bytes)
        messages.write(memory, places, self._outputs)
        self._outputs = {}
        return Executed(places)


def main() -> None:
    connection = socket.socket(fileno=int(sys.argv[1]))
    lifeline.end_group_with(sys.stdin.fileno())
    # Runtimes print to stdout too, which is the program's own.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with contextlib.suppress(OSError):
        # Where memory runs out, a worker goes before the program, which can start it again.
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")
    worker, inbox = Worker(), messages.Inbox(connection)
    with contextlib.suppress(EOFError, OSError):
        while True:
            content, files = inbox.receive_with_files()
            request = messages.decode_request.decode(content)
            inbox.polls = isinstance(request, Execute) and request.polls
            messages.send(connection, worker.answer(request, files))
    # Not a runtime's own goodbye, which can hang or crash when all is done.
    os._exit(0)


def _limit_memory(limit_bytes: int) -> None:
    # Not RLIMIT_AS: mapped weights and libraries count there too.
    maximum = limit_bytes + _STACK_BYTES * (os.cpu_count() or 1)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(
        resource.RLIMIT_DATA, (maximum if hard == resource.RLIM_INFINITY else min(maximum, hard), hard)
    )


if __name__ == "__main__":
    main()
