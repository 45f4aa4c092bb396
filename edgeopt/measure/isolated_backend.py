"""The side of the caller: a backend as `Backend` describes it, whose `load` asks a process of its own."""

import contextlib
import tempfile
from dataclasses import replace
from pathlib import Path

from edgeopt.backends.base import Array, Backend, Feeds, Options, Placement, TensorInfo
from edgeopt.errors import EdgeoptError, ModelError, TrialError, UsageError
from edgeopt.measure import isolated_worker
from edgeopt.measure.host import Asked, LocalHost
from edgeopt.measure.isolated_worker import Answer, Close, Done, Open, Opened, Request, Run, decode_answer
from edgeopt.measure.serve import FAILED, NO_MEMORY, NO_PACKAGE, Failed, refuse_machine_failure

CHILD_MODULE = "edgeopt.measure.isolated_worker"
LIMIT_S = 1800.0
"""For one answer: no call that ends takes longer, and the caller can cancel."""


class Apart:
    """Processes that hold one model each, started as they are needed and kept for the next model.

    What a crashed or hung runtime leaves is a ModelError, like that of a runtime that refuses a model.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="edgeopt-apart-")
        self._idle: dict[str, list[Process]] = {}
        self._all: list[Process] = []

    def of(self, backend: Backend, load_limit_s: float = LIMIT_S) -> Backend:
        """The same backend, but for where its sessions live; one that loads for longer than that is ended."""

        def load(
            path: Path, options: Options, *, strict: bool = False, custom_ops: tuple[str, ...] = ()
        ) -> "ApartSession":
            request = Open(backend.name, str(path.absolute()), dict(options), strict, custom_ops)
            return self._load(backend, request, load_limit_s)

        return replace(backend, load=load)

    def _load(self, backend: Backend, request: Open, limit_s: float) -> "ApartSession":
        # A runtime that once flushed denormals does so with every later model of its process.
        kind = f"{backend.name} flushing" if request.options.get("flush_denormals") else backend.name
        waiting = self._idle.setdefault(kind, [])
        process = waiting.pop() if waiting else self._started(backend)
        try:
            loaded = process.ask(request, "while it loaded the model", limit_s)
        except EdgeoptError:
            waiting.append(process)
            raise
        assert isinstance(loaded, Opened)  # noqa: S101 - what `child` answers to it
        return ApartSession(process, loaded, self._folder.name, waiting)

    def _started(self, backend: Backend) -> "Process":
        process = Process(backend.title, self._folder.name)
        self._all.append(process)
        return process

    def close(self) -> None:
        """Ends the processes; safe to call twice."""
        for process in self._all:
            process.end()
        self._all.clear()
        self._idle.clear()
        self._folder.cleanup()


class Process:
    """One process of one runtime; where it has ended, the next question starts another."""

    def __init__(self, title: str, folder: str) -> None:
        self._title = title
        self._asked: Asked[Answer] = Asked(LocalHost(Path(folder)), CHILD_MODULE, decode_answer.decode)

    @property
    def is_there(self) -> bool:
        """Whether it has been started and has not ended, as far as is known."""
        return self._asked.child is not None

    def ask(self, request: Request, when: str, limit_s: float = LIMIT_S) -> Opened | Done:
        """Raises what the child raised; a ModelError where it crashed or hung."""
        answer = self._asked.ask(request, limit_s)
        if not isinstance(answer, Failed):
            return answer
        refuse_machine_failure(answer)
        if answer.ending:
            raise ModelError(f"{self._title} {answer.message.rstrip('.')}, {when}.", answer.hint)
        # What a runtime raises of its own speaks of the model.
        if answer.code in {ModelError.code, FAILED, NO_MEMORY, NO_PACKAGE}:
            raise ModelError(answer.message, answer.hint)
        raise TrialError(answer.message, answer.hint, answer.code)

    def end(self) -> None:
        self._asked.close()


class ApartSession:
    """A model that the other process holds."""

    placement: Placement | None = None

    def __init__(self, process: Process, loaded: Opened, folder: str, idle: list[Process]) -> None:
        self.inputs: tuple[TensorInfo, ...] = loaded.inputs
        self.outputs: tuple[TensorInfo, ...] = loaded.outputs
        self._process: Process | None = process
        self._folder = folder
        self._idle = idle

    def run(self, feeds: Feeds) -> dict[str, Array]:
        if self._process is None:
            raise UsageError("The session is closed.")
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            given, got = Path(folder) / "feeds", Path(folder) / "outputs"
            isolated_worker.write(given, feeds)
            self._process.ask(Run(str(given), str(got)), "while it ran the model")
            return isolated_worker.read(got)

    def close(self) -> None:
        """The process lets go of the model and waits for the next."""
        if self._process is None:
            return
        # One that has ended has let go of it already.
        if self._process.is_there:
            with contextlib.suppress(EdgeoptError):
                self._process.ask(Close(), "while it let go of the model")
        self._idle.append(self._process)
        self._process = None
