"""The tasks of a worker that runs single operators, with their requests and answers."""

import statistics
import time
from pathlib import Path

import msgspec

from edgeopt.backends import backend_named
from edgeopt.backends.base import Array, Session
from edgeopt.errors import ModelError, UsageError
from edgeopt.workers.arrays import read_arrays, write_arrays


class OpenOperator(msgspec.Struct, frozen=True, tag="open-operator"):
    """Request to close the previous model, load this one, run it, and save its outputs."""

    backend: str
    options: dict[str, str | int]
    model_path: str
    feeds_path: str
    outputs_path: str


class TimeOperator(msgspec.Struct, frozen=True, tag="time-operator"):
    """Request to run the open model repeatedly for this long, at least once."""

    slice_ms: float


class Opened(msgspec.Struct, frozen=True, tag="opened"):
    load_ms: float = 0.0
    refusal: str = ""
    """Reason why the backend does not accept the model."""


class Timed(msgspec.Struct, frozen=True, tag="timed"):
    run_us: float
    """The median of the slice."""


_WARM_UP_BELOW_US = 20_000.0
_MAX_RUNS = 10_000


class OperatorRunner:
    """The open model of one operator."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._feeds: dict[str, Array] = {}
        self._run_us = 0.0

    def open(self, request: OpenOperator) -> Opened:
        if self._session is not None:
            self._session.close()
            self._session = None
        self._feeds = read_arrays(Path(request.feeds_path))
        begin = time.perf_counter()
        try:
            session = backend_named(request.backend).load(Path(request.model_path), request.options, strict=True)
        except ModelError as error:  # of the model itself; a device that is away is another matter
            return Opened(refusal=error.message)
        load_ms = (time.perf_counter() - begin) * 1e3
        self._session = session
        write_arrays(Path(request.outputs_path), session.run(self._feeds))
        self._run_us = self._one_run(session)
        return Opened(load_ms)

    def time(self, request: TimeOperator) -> Timed:
        session = self._session
        if session is None:
            raise UsageError("No model is open.")
        if self._run_us < _WARM_UP_BELOW_US:
            self._one_run(session)  # brings the caches back from what ran in the turn before
        taken: list[float] = []
        end = time.perf_counter() + request.slice_ms / 1e3
        while not taken or (time.perf_counter() < end and len(taken) < _MAX_RUNS):
            taken.append(self._one_run(session))
        self._run_us = statistics.median(taken)
        return Timed(self._run_us)

    def _one_run(self, session: Session) -> float:
        begin = time.perf_counter_ns()
        session.run(self._feeds)
        return (time.perf_counter_ns() - begin) / 1e3
