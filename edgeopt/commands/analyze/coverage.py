"""Nodes of a model that each installed backend would run, asked of the runtimes in separate processes."""

import time
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path

from edgeopt.backends import BACKENDS, backend_named
from edgeopt.backends.base import Backend
from edgeopt.commands.analyze.messages import Cover, Covered
from edgeopt.errors import UsageError
from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.analysis import CoverageRow
from edgeopt.hw.device import Device
from edgeopt.workers.client import WorkerClient
from edgeopt.workers.host import LocalHost
from edgeopt.workers.protocol import Failed
from edgeopt.workspace import temporary_folder

# The runtimes work while this process does its own part, and take about as long; some need minutes for a chain of
# 10,000 nodes. How long the rest may take depends on how busy the device is, so it is not a fixed time.
_MIN_LIMIT_S = 3.0
_OF_OWN_TIME = 0.3


class CoverageCheck:
    """Coverage check that starts at once and runs beside the caller, with one child process for each runtime."""

    def __init__(self, path: Path, backends: Sequence[Backend], named: bool = False) -> None:
        self._path = path
        self._named = named
        """Whether the user named these backends, so that a missing one is reported with its reason."""
        self._begin = time.monotonic()
        packages = dict.fromkeys(backend.package for backend in backends)
        self._queues = [[b for b in backends if b.package == package] for package in packages]
        self._folder = temporary_folder("analyze")
        """Folder for temporary files that the runtimes write."""
        self._workers = [WorkerClient(LocalHost(Path(self._folder.name))) for _ in self._queues]
        self._ask(queue[0] for queue in self._queues)

    def rows(self, emit: Emit = ignore) -> tuple[CoverageRow, ...]:
        """Waits for all answers, but not for long; in the order of the registry."""
        limit_s = _MIN_LIMIT_S + _OF_OWN_TIME * (time.monotonic() - self._begin)
        found: dict[str, CoverageRow] = {}
        turns = list(zip_longest(*self._queues))
        for number, turn in enumerate(turns):
            if number:
                self._ask(turn)
            for worker, backend in zip(self._workers, turn, strict=True):
                if backend is None:
                    continue
                emit(Progress("querying the runtimes", backend.title))
                row = self._row(backend, worker, limit_s)
                if row is not None:
                    found[backend.name] = row
        self.close()
        return tuple(found[backend.name] for backend in BACKENDS if backend.name in found)

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self._folder.cleanup()

    def _ask(self, turn: "Iterable[Backend | None]") -> None:
        for worker, backend in zip(self._workers, turn, strict=True):
            if backend is not None and self._path.suffix in backend.formats:
                worker.send(Cover(backend.name, str(self._path.absolute())))

    def _row(self, backend: Backend, worker: WorkerClient, limit_s: float) -> CoverageRow | None:
        if self._path.suffix not in backend.formats:
            what = "OpenVINO models" if self._path.suffix == ".xml" else f"files of type {self._path.suffix}"
            return CoverageRow(backend.name, backend.title, reason=f"it does not load {what}")
        answer = worker.answer(Covered, limit_s)
        if isinstance(answer, Failed):
            return CoverageRow(backend.name, backend.title, reason=answer.reason)
        if not answer.unavailable:
            return _covered(backend, answer)
        away = f"not available: {answer.unavailable}"
        return CoverageRow(backend.name, backend.title, reason=away) if self._named else None


def installed(names: Sequence[str] = (), device: Device | None = None) -> list[Backend]:
    """Returns the named backends, or those whose package is installed, even if they cannot run here."""
    if names:
        chosen = [backend_named(name) for name in names]
        odd = next((each for each in chosen if each.package is None), None)
        if odd is not None:
            raise UsageError(
                f"The backend '{odd.name}' computes nothing; it is for tests.", "See: edgeopt backends"
            )
        return chosen
    here = [each for each in BACKENDS if each.package and find_spec(each.package) is not None]
    # Where OpenVINO sees the processor alone, its own choice of a device is the processor.
    seen = (
        next((runtime.devices for runtime in device.runtimes if runtime.name == "openvino"), {}) if device else {}
    )
    return [each for each in here if not each.chooses_device or list(seen) != ["CPU"]]


def _covered(backend: Backend, answer: Covered) -> CoverageRow:
    falls_back = backend.package == "onnxruntime" and not backend.name.endswith("-cpu")
    reason = ""
    if answer.unsupported:
        reason = "they run on the processor instead" if falls_back else "it cannot load the model because of them"
    return CoverageRow(
        backend.name,
        backend.title,
        answer.version,
        answer.supported,
        answer.total,
        answer.unsupported,
        answer.boundaries if falls_back or not answer.unsupported else None,
        reason,
    )
