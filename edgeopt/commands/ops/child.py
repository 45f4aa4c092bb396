"""Runs single operators in a process of its own (`python -m edgeopt.commands.ops.child`); see `messages`."""

import statistics
import time
from pathlib import Path

from edgeopt.backends import backend_named
from edgeopt.backends.base import Array, Session
from edgeopt.commands.ops.messages import (
    Answer,
    Open,
    Opened,
    Refused,
    Time,
    Timed,
    decode_request,
    read_arrays,
    write_arrays,
)
from edgeopt.errors import ModelError
from edgeopt.measure.serve import Answering, Failed, serve

_WARM_UP_BELOW_US = 20_000.0
_MOST_RUNS = 10_000


class Runner:
    """The model that is open."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._feeds: dict[str, Array] = {}
        self._run_us = 0.0

    def answer(self, request: Open | Time) -> Answer:
        return self._open(request) if isinstance(request, Open) else self._time(request.slice_ms)

    def _open(self, request: Open) -> Answer:
        if self._session is not None:
            self._session.close()
            self._session = None
        self._feeds = read_arrays(Path(request.feeds_path))
        begin = time.perf_counter()
        try:
            session = backend_named(request.backend).load(Path(request.model_path), request.options, strict=True)
        except ModelError as error:  # of the model itself; a device that is away is another matter
            return Refused(error.message)
        load_ms = (time.perf_counter() - begin) * 1e3
        self._session = session
        write_arrays(Path(request.outputs_path), session.run(self._feeds))
        self._run_us = self._one_run(session)
        return Opened(load_ms)

    def _time(self, slice_ms: float) -> Answer:
        session = self._session
        if session is None:
            return Failed("No model is open.")
        if self._run_us < _WARM_UP_BELOW_US:
            self._one_run(session)  # brings the caches back from what ran in the turn before
        taken: list[float] = []
        end = time.perf_counter() + slice_ms / 1e3
        while not taken or (time.perf_counter() < end and len(taken) < _MOST_RUNS):
            taken.append(self._one_run(session))
        self._run_us = statistics.median(taken)
        return Timed(self._run_us)

    def _one_run(self, session: Session) -> float:
        begin = time.perf_counter_ns()
        session.run(self._feeds)
        return (time.perf_counter_ns() - begin) / 1e3


ANSWERING = Answering(decode_request.decode, lambda: Runner().answer)

if __name__ == "__main__":
    serve(ANSWERING.lines())
