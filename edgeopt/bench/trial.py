"""A trial: one candidate in a process of its own (`python -m edgeopt.bench.trial`).

Reads one request a line, answers one line; ends when its stdin closes. See `messages`.
"""

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np

from edgeopt.backends.base import Array, Feeds, Options, TensorInfo
from edgeopt.bench import memory
from edgeopt.bench.messages import (
    Answer,
    Describe,
    Described,
    Failed,
    Load,
    Loaded,
    Memory,
    Outputs,
    Request,
    Saved,
    Time,
    Timed,
    Watch,
    decode_request,
)
from edgeopt.bench.pace import Pace
from edgeopt.bench.serve import serve
from edgeopt.data import Samples, open_samples, write_archive
from edgeopt.errors import EdgeoptError, said_by

# Enough different inputs that no cache can know them all; few enough to keep in memory.
ROTATION = 16


class Loads(Protocol):
    @property
    def inputs(self) -> tuple[TensorInfo, ...]: ...
    @property
    def outputs(self) -> tuple[TensorInfo, ...]: ...
    def run(self, feeds: Feeds) -> dict[str, Array]: ...


class Trial:
    """The state between requests: a session and the feeds that it is given in turn."""

    def __init__(self) -> None:
        self.session: Loads | None = None
        self.samples: Samples | None = None
        self.rotation: list[dict[str, Array]] = []
        self.memory: dict[str, int | None] = {}
        self.pace: Pace | None = None

    def answer(self, request: Request) -> Answer:
        if isinstance(request, Load):
            return self._load(request)
        if isinstance(request, Describe):
            session = _opener(request.backend, Path(request.model_path), {})()
            return Described(session.inputs, session.outputs)
        if self.session is None:
            return Failed("usage", "The trial was asked to run before a model was loaded.")
        if isinstance(request, Time):
            return Timed(_time(self.session.run, self.rotation, request.slice_ms), self._memory())
        if isinstance(request, Watch):
            self.pace = self.pace or Pace(self.session.run, self.rotation)
            return self.pace.slice(request.slice_ms, request.interval_ms)
        return self._outputs(self.session, request)

    def _load(self, request: Load) -> Answer:
        open_session = _opener(request.backend, Path(request.model_path), request.options)
        self.memory["import_bytes"] = memory.resident_bytes()
        begin = time.perf_counter()
        session = open_session()
        load_ms = (time.perf_counter() - begin) * 1e3
        self.memory["load_bytes"] = memory.resident_bytes()
        self.samples = open_samples(Path(request.samples_path))
        count = min(len(self.samples), ROTATION)
        # Copies, not views of the mapped file: a page fault is not the model's latency.
        self.rotation = [{n: np.array(a) for n, a in self.samples.feeds(k).items()} for k in range(count)]
        begin = time.perf_counter()
        session.run(self.rotation[0])
        first_run_ms = (time.perf_counter() - begin) * 1e3
        self.memory["first_run_bytes"] = memory.resident_bytes()
        self.session, self.pace = session, None
        return Loaded(session.inputs, session.outputs, load_ms, first_run_ms, self._memory())

    def _outputs(self, session: Loads, request: Outputs) -> Answer:
        assert self.samples is not None  # noqa: S101 - a loaded session has samples
        runs = [session.run(self.samples.feeds(k)) for k in range(request.first, request.first + request.count)]
        arrays = {f"{position}/{name}": array for position, run in enumerate(runs) for name, array in run.items()}
        write_archive(Path(request.out_path), arrays)
        return Saved(request.out_path)

    def _memory(self) -> Memory:
        return Memory(**self.memory, peak_bytes=memory.peak_bytes())


def read_outputs(path: Path) -> list[dict[str, Array]]:
    """The outputs that a trial saved, one dict a sample."""
    runs: dict[int, dict[str, Array]] = {}
    with np.load(path, allow_pickle=False) as archive:
        for key in archive.files:
            position, name = key.split("/", 1)
            runs.setdefault(int(position), {})[name] = archive[key]
    return [runs[k] for k in sorted(runs)]


def _opener(name: str, path: Path, options: Options) -> Callable[[], Loads]:
    """What loads the session, with its imports already done, so that loading is timed net of them."""
    if name == "bundle":
        from edgeopt.runtime.session import load

        return lambda: load(path)
    from edgeopt.backends import backend_named

    backend = backend_named(name)
    if backend.package is not None:
        importlib.import_module(backend.package)
    return lambda: backend.load(path, options)


def _time(run: Callable[[Feeds], object], rotation: list[dict[str, Array]], slice_ms: float) -> tuple[float, ...]:
    clock = time.perf_counter_ns
    taken: list[int] = []
    position, count = 0, len(rotation)
    begin = clock()
    warm_until, end = begin + int(slice_ms * 2e5), begin + int(slice_ms * 1e6)
    while True:
        start = clock()
        if start >= end and taken:
            break
        run(rotation[position % count])
        stop = clock()
        position += 1
        if start >= warm_until or stop >= end:
            taken.append(stop - start)
    return tuple(t / 1e6 for t in taken)


def main() -> None:
    """Answers requests until the parent ends."""
    trial = Trial()
    serve(lambda line: msgspec.json.encode(_guarded(trial, line)))


def _guarded(trial: Trial, line: bytes) -> Answer:
    try:
        return trial.answer(decode_request(line))
    except EdgeoptError as error:
        return Failed(error.code, error.message, error.hint)
    except Exception as error:  # noqa: BLE001 - the process's edge: whatever a runtime raises is a result
        return Failed("failed", f"{type(error).__name__}: {said_by(error)}")


if __name__ == "__main__":
    main()
