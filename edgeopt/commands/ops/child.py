"""Runs single operators in a process of its own (`python -m` this file): a JSON line for each question."""

import statistics
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np

from edgeopt.backends import backend_named
from edgeopt.backends.base import Array, Session
from edgeopt.errors import ModelError, writing_to
from edgeopt.measure.serve import Answering, Failed, serve


class Open(msgspec.Struct, frozen=True, tag="open"):
    """Let go of the model before, load this one, run it, and save what it gives."""

    backend: str
    options: dict[str, str | int]
    model_path: str
    feeds_path: str
    outputs_path: str


class Time(msgspec.Struct, frozen=True, tag="time"):
    """Run what is open over and over for this long, at least once."""

    slice_ms: float


class Opened(msgspec.Struct, frozen=True, tag="opened"):
    load_ms: float


class Timed(msgspec.Struct, frozen=True, tag="timed"):
    run_us: float
    """The median of the slice."""


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The backend does not take the model."""

    message: str


Request = Open | Time
Answer = Opened | Timed | Refused | Failed

decode_request: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
decode_answer: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """The names first, then each array as numpy writes it; in an `.npz`, checksums take half of the time."""
    with writing_to(path), path.open("wb") as file:
        np.save(file, np.array(list(arrays)))
        for array in arrays.values():
            np.save(file, array, allow_pickle=False)


def read_arrays(path: Path) -> dict[str, Array]:
    with path.open("rb") as file:
        names = np.load(file, allow_pickle=False)
        return {str(name): np.load(file, allow_pickle=False) for name in names}


_WARM_UP_BELOW_US = 20_000.0
_MOST_RUNS = 10_000


class Runner:
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
