"""Backends with sessions in worker processes: a runtime that crashes or hangs raises a ModelError."""

import contextlib
import itertools
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec

from edgeopt.backends import backend_named
from edgeopt.backends.base import Array, Backend, Feeds, Options, Placement, Session, TensorInfo
from edgeopt.errors import EdgeoptError, ModelError, TrialError, UsageError
from edgeopt.workers.arrays import read_arrays, write_arrays
from edgeopt.workers.client import WorkerClient
from edgeopt.workers.host import LocalHost
from edgeopt.workers.protocol import FAILED, NO_MEMORY, NO_PACKAGE, Done, Failed, raise_machine_failure
from edgeopt.workspace import temporary_folder

LIMIT_S = 1800.0
"""Time limit for one answer, longer than any call that ends; the caller can cancel."""
OptionValue = str | int | float | bool | dict[str, list[int]]
_Answer = TypeVar("_Answer")
_NUMBERS = itertools.count()
"""Numbers of the sessions of this process, with which the names of their files begin."""


class OpenModel(msgspec.Struct, frozen=True, tag="open-model"):
    """Request to close the loaded model and load this one."""

    backend: str
    model_path: str
    options: dict[str, OptionValue] = {}
    strict: bool = False
    custom_ops: tuple[str, ...] = ()


class RunModel(msgspec.Struct, frozen=True, tag="run-model"):
    """Request to run the loaded model once."""

    feeds_path: str
    outputs_path: str


class CloseModel(msgspec.Struct, frozen=True, tag="close-model"):
    """Request to close the loaded model."""


class ModelPorts(msgspec.Struct, frozen=True, tag="ports"):
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]


class ModelHolder:
    """The loaded model of a worker."""

    def __init__(self) -> None:
        self._session: Session | None = None

    def open(self, request: OpenModel) -> ModelPorts:
        self.close()
        backend = backend_named(request.backend)
        self._session = session = backend.load(
            Path(request.model_path), request.options, strict=request.strict, custom_ops=request.custom_ops
        )
        return ModelPorts(session.inputs, session.outputs)

    def run(self, request: RunModel) -> None:
        if self._session is None:
            raise UsageError("No model is open.")
        write_arrays(Path(request.outputs_path), self._session.run(read_arrays(Path(request.feeds_path))))

    def close(self, _request: CloseModel | None = None) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


class IsolatedBackends:
    """Worker processes that hold one model each, started as needed and kept for the next model."""

    def __init__(self) -> None:
        self._folder = temporary_folder("isolated")
        self._idle: dict[str, list[WorkerClient]] = {}
        self._all: list[WorkerClient] = []

    def of(self, backend: Backend, load_limit_s: float = LIMIT_S) -> Backend:
        """Returns the backend with its sessions in workers; loading for longer than the limit raises an error."""

        def load(
            path: Path, options: Options, *, strict: bool = False, custom_ops: tuple[str, ...] = ()
        ) -> "IsolatedSession":
            request = OpenModel(backend.name, str(path.absolute()), dict(options), strict, custom_ops)
            # A runtime that has once flushed denormals does so for every later model of its process.
            kind = f"{backend.name} flushing" if options.get("flush_denormals") else backend.name
            idle = self._idle.setdefault(kind, [])
            return IsolatedSession(
                backend.title, self._folder.name, idle, self._worker(idle), request, load_limit_s
            )

        return replace(backend, load=load)

    def _worker(self, idle: list[WorkerClient]) -> WorkerClient:
        if idle:
            return idle.pop()
        self._all.append(WorkerClient(LocalHost(Path(self._folder.name))))
        return self._all[-1]

    def close(self) -> None:
        """Ends the processes; safe to call twice."""
        for worker in self._all:
            worker.close()
        self._all.clear()
        self._idle.clear()
        self._folder.cleanup()


class IsolatedSession:
    """A model in a worker; `close` makes the worker available to the next model."""

    placement: Placement | None = None

    def __init__(
        self,
        title: str,
        folder: str,
        idle: list[WorkerClient],
        worker: WorkerClient,
        request: OpenModel,
        limit_s: float,
    ) -> None:
        self._title, self._folder, self._idle = title, folder, idle
        self._number = next(_NUMBERS)
        self._worker: WorkerClient | None = worker
        try:
            ports = self._ask(worker, request, ModelPorts, "while it loaded the model", limit_s)
        except EdgeoptError:
            idle.append(worker)
            raise
        self.inputs: tuple[TensorInfo, ...] = ports.inputs
        self.outputs: tuple[TensorInfo, ...] = ports.outputs

    def run(self, feeds: Feeds) -> dict[str, Array]:
        if self._worker is None:
            raise UsageError("The session is closed.")
        given, got = (Path(self._folder, f"{self._number}-{kind}") for kind in ("feeds", "outputs"))
        try:
            write_arrays(given, feeds)
            self._ask(self._worker, RunModel(str(given), str(got)), Done, "while it ran the model")
            return read_arrays(got)
        finally:
            given.unlink(missing_ok=True)
            got.unlink(missing_ok=True)

    def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        # A worker that has ended holds no model.
        if worker.child is not None:
            with contextlib.suppress(EdgeoptError):
                self._ask(worker, CloseModel(), Done, "while it closed the model")
        self._idle.append(worker)

    def _ask(
        self,
        worker: WorkerClient,
        request: msgspec.Struct,
        wanted: type[_Answer],
        when: str,
        limit_s: float = LIMIT_S,
    ) -> _Answer:
        """Returns the answer; raises the worker's error, or ModelError if the worker crashed or hung."""
        answer = worker.ask(request, wanted, limit_s)
        if not isinstance(answer, Failed):
            return answer
        raise_machine_failure(answer)
        if answer.ending:
            raise ModelError(f"{self._title} {answer.message.rstrip('.')}, {when}.", answer.hint)
        # Errors raised by a runtime itself concern the model.
        if answer.code in {ModelError.code, FAILED, NO_MEMORY, NO_PACKAGE}:
            raise ModelError(answer.message, answer.hint)
        raise TrialError(answer.message, answer.hint, answer.code)
