"""Makes the variants, several at a time, each in a child process that may crash without harm."""

import select
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from edgeopt.backends.base import TensorInfo
from edgeopt.bench.host import LocalChild
from edgeopt.bench.messages import Failed
from edgeopt.errors import EdgeoptError, MissingExtraError, ModelError, TrialError
from edgeopt.search.making.messages import Inspect, Inspected, Made, Make, decode_answer

MAKER_MODULE = "edgeopt.search.making.maker"
_ANSWER_READY_S = 5.0
_LOOK_EVERY_S = 0.2
_LATE = Failed("late", "not ready within the time limit; a longer --time-limit allows it")
_STOPPED = Failed("stopped", "not ready when the search was stopped")


@dataclass(slots=True)
class Maker:
    """A child process that makes one variant at a time."""

    log_folder: Path
    child: LocalChild = field(init=False)
    busy: Make | None = None
    begin: float = 0.0

    def __post_init__(self) -> None:
        self.child = LocalChild(MAKER_MODULE, self.log_folder)

    def fileno(self) -> int:
        return self.child.fileno()

    def start(self, request: Make) -> None:
        self.busy, self.begin = request, time.monotonic()
        self.child.send(msgspec.json.encode(request))

    def finish(self) -> Made | Failed:
        """The answer that is ready; after a crash, the reason, with a fresh child for what comes next."""
        try:
            answer = decode_answer(self.child.receive(_ANSWER_READY_S))
        except TrialError as error:
            self.child = LocalChild(MAKER_MODULE, self.log_folder)
            answer = Failed("crashed", error.message)
        self.busy = None
        assert isinstance(answer, (Made, Failed))  # noqa: S101 - a maker answers Make with these
        return answer

    def close(self) -> None:
        self.child.close()


def inspect(
    maker: Maker,
    model: Path,
    samples: Path,
    count: int,
    timeout_s: float = 600.0,
    narrowed: tuple[TensorInfo, ...] = (),
) -> Inspected:
    """What the model is; raises what is wrong with it."""
    maker.child.send(msgspec.json.encode(Inspect(str(model), str(samples), count, narrowed)))
    try:
        answer = decode_answer(maker.child.receive(timeout_s))
    except TrialError as error:
        raise ModelError(
            f"Reading '{model.name}' {error.message}.", "The file may be damaged; export it again."
        ) from None
    if isinstance(answer, Failed):
        raise _as_error(answer)
    assert isinstance(answer, Inspected)  # noqa: S101 - a maker answers Inspect with this
    return answer


class Memory(Protocol):
    """What knows the variants that earlier searches made, and is told of new ones."""

    def find(self, job: Make) -> Made | None: ...
    def learn(self, job: Make, made: Made) -> None: ...


def make_all(
    makers: list[Maker],
    jobs: list[Make],
    deadline: float,
    memory: Memory | None = None,
    stop: threading.Event | None = None,
) -> Iterator[tuple[Make, Made | Failed]]:
    """Makes what is asked, as many at a time as there are makers; yields each as it is ready.

    What is not ready by the deadline, or when it is told to stop, is given up, with that as its reason.
    """

    def is_stopped() -> bool:
        return stop is not None and stop.is_set()

    if is_stopped():
        yield from _give_up([], jobs, _STOPPED)
        return
    known = [(job, made) for job in jobs if memory is not None and (made := memory.find(job)) is not None]
    waiting = [job for job in jobs if not any(job is one for one, _ in known)]
    while True:
        for maker in makers:
            if maker.busy is None and waiting and time.monotonic() < deadline and not is_stopped():
                maker.start(waiting.pop(0))
        # Others are made while these are looked at.
        while known:
            yield known.pop(0)
        busy = [m for m in makers if m.busy is not None]
        if not busy:
            yield from _give_up([], waiting, _STOPPED if is_stopped() else _LATE)
            return
        ready: list[Maker] = []
        left = _LOOK_EVERY_S
        while not ready and left > 0:
            left = 0.0 if is_stopped() else max(0.0, deadline - time.monotonic())
            ready = select.select(busy, [], [], min(left, _LOOK_EVERY_S))[0]
        for maker in ready:
            job = maker.busy
            assert job is not None  # noqa: S101 - it was busy
            answer = maker.finish()
            if memory is not None and isinstance(answer, Made):
                memory.learn(job, answer)
            yield job, answer
        if not ready:
            yield from _give_up(busy, waiting, _STOPPED if is_stopped() else _LATE)
            return


def _give_up(busy: list[Maker], waiting: list[Make], why: Failed) -> Iterator[tuple[Make, Failed]]:
    for maker in busy:
        job, maker.busy = maker.busy, None
        maker.close()
        if job is not None:
            yield job, why
    for job in waiting:
        yield job, why


def _as_error(failed: Failed) -> EdgeoptError:
    if failed.code == "missing-extra":
        return MissingExtraError("optimize", "Reading and rewriting models")
    if failed.code in {"bad-model", "failed"}:
        return ModelError(failed.message, failed.hint)
    return EdgeoptError(failed.message, failed.hint)
