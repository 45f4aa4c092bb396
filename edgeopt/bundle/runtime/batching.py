"""Calls of `run_async` that come at nearly the same time, run together as one batch."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import numpy as np

from edgeopt.backends.base import Array, Feeds, TensorInfo, closed
from edgeopt.errors import EdgeoptError, UsageError

P = ParamSpec("P")
Result = TypeVar("Result")


class RunThreads:
    """A pool of threads that start when they are first needed and end with the session."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, "edgeopt-run")
        self._closed = False

    async def run(self, call: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """A cancelled caller gives up its place in the queue; a call under way ends, and its result is dropped."""
        return await asyncio.wrap_future(self.submit(call, *args, **kwargs))

    def submit(self, call: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> "Future[Result]":
        def work() -> Result:
            if self._closed:
                raise closed()
            return call(*args, **kwargs)

        try:
            return self._pool.submit(work)
        except RuntimeError:
            if self._closed:
                raise closed() from None
            raise

    def close(self) -> None:
        """Waits for the calls under way; those in the queue fail with the error of a closed session."""
        self._closed = True
        self._pool.shutdown()


Run = Callable[[Feeds], dict[str, Array]]
Outputs = dict[str, Array]
Outcome = Outputs | BaseException
Key = tuple[asyncio.AbstractEventLoop, tuple[tuple[str, str, tuple[int, ...]], ...]]


@dataclass(frozen=True, slots=True)
class Batching:
    """Runs at most `max_size` samples together; the first waits at most `max_delay_us` for others."""

    max_size: int = 8
    max_delay_us: int = 2000

    def __post_init__(self) -> None:
        if self.max_size < 1 or self.max_delay_us < 0:
            raise UsageError(
                f"Batches of {self.max_size} samples within {self.max_delay_us} µs are not possible.",
                "max_size must be at least 1, and max_delay_us at least 0.",
            )


@dataclass(slots=True, eq=False)
class _Call:
    feeds: dict[str, Array]
    result: "asyncio.Future[Outputs]"


@dataclass(slots=True)
class _Group:
    """Calls that wait for each other. Only their event loop's thread touches it."""

    timer: asyncio.TimerHandle
    calls: list[_Call]


def rows_of(feeds: Feeds) -> int:
    """The rows of a request; 0 where its inputs have none, or different numbers of them."""
    rows = {len(array) if array.ndim else 0 for array in feeds.values()}
    return rows.pop() if len(rows) == 1 else 0


class Batcher:
    """Collects calls of equal shapes and types, and hands each caller its own rows."""

    def __init__(self, run: Run, inputs: tuple[TensorInfo, ...], threads: RunThreads, batching: Batching) -> None:
        self._run = run
        self._names = [info.name for info in inputs]
        self._name_set = set(self._names)
        self._threads = threads
        self._batching = batching
        self._groups: dict[Key, _Group] = {}

    async def run(self, feeds: Feeds | Array) -> Outputs:
        if not isinstance(feeds, Mapping) and len(self._names) == 1:
            feeds = {self._names[0]: feeds}
        rows = self._rows(feeds)
        if not rows or not isinstance(feeds, Mapping) or rows * 2 > self._batching.max_size:
            # Too large to share a batch, or wrong: the run itself says what is wrong.
            return await self._threads.run(self._run, feeds)  # type: ignore[arg-type] # the run refuses an array
        loop = asyncio.get_running_loop()
        key = loop, tuple((name, feeds[name].dtype.str, feeds[name].shape) for name in self._names)
        call = _Call(dict(feeds), loop.create_future())
        group = self._groups.get(key)
        if group is None:
            timer = loop.call_later(self._batching.max_delay_us / 1e6, self._send, key)
            group = self._groups[key] = _Group(timer, [])
        group.calls.append(call)
        if (len(group.calls) + 1) * rows > self._batching.max_size:
            self._send(key)
        try:
            return await call.result
        except asyncio.CancelledError:
            self._leave(key, call)
            raise

    def _rows(self, feeds: Feeds | Array) -> int:
        """Samples in a call; 0 where it cannot be part of a batch."""
        if not isinstance(feeds, Mapping) or feeds.keys() != self._name_set:
            return 0
        return rows_of(feeds) if all(isinstance(array, np.ndarray) for array in feeds.values()) else 0

    def _leave(self, key: Key, call: _Call) -> None:
        """Frees the place of a cancelled call, where its batch has not begun."""
        group = self._groups.get(key)
        if group is not None and call in group.calls:
            group.calls.remove(call)
            if not group.calls:
                group.timer.cancel()
                del self._groups[key]

    def _send(self, key: Key) -> None:
        group = self._groups.pop(key)
        group.timer.cancel()
        loop, calls = key[0], group.calls
        try:
            work = self._threads.submit(self._answer, calls)
        except EdgeoptError as error:
            _settle([(call, error) for call in calls])
            return

        def answered(work: "Future[list[tuple[_Call, Outcome]]]") -> None:
            error = work.exception()
            settled = work.result() if error is None else [(call, error) for call in calls]
            # One wake-up of the loop for the whole batch. If the loop is closed, nobody waits.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, settled)

        work.add_done_callback(answered)

    def _answer(self, calls: list[_Call]) -> "list[tuple[_Call, Outcome]]":
        calls = [call for call in calls if not call.result.cancelled()]
        if len(calls) > 1:
            # If a batch fails, each call runs alone, so that only the bad one fails.
            with contextlib.suppress(EdgeoptError):
                together = run_together(self._run, [call.feeds for call in calls])
                if together is not None:
                    return list(zip(calls, together, strict=True))
        return [(call, self._alone(call)) for call in calls]

    def _alone(self, call: _Call) -> "Outcome":
        try:
            return self._run(call.feeds)
        except EdgeoptError as error:
            return error


def _settle(outcomes: "Sequence[tuple[_Call, Outcome]]") -> None:
    """Hands each call its outputs or its error, on the thread of the event loop."""
    for call, outcome in outcomes:
        if call.result.done():  # cancelled
            continue
        if isinstance(outcome, BaseException):
            call.result.set_exception(outcome)
        else:
            call.result.set_result(outcome)


def run_together(run: Run, feeds: Sequence[Feeds]) -> list[Outputs] | None:
    """One run of feeds with equal shapes, and each one's own rows; None where an output does not have as many."""
    rows = len(next(iter(feeds[0].values())))
    whole = run({name: np.concatenate([one[name] for one in feeds]) for name in feeds[0]})
    if any(array.ndim == 0 or len(array) != rows * len(feeds) for array in whole.values()):
        return None
    # Copies: views would keep the whole batch in memory as long as one caller keeps its rows.
    return [
        {name: array[k * rows : (k + 1) * rows].copy() for name, array in whole.items()} for k in range(len(feeds))
    ]
