"""Calls of `run_async` that come at nearly the same time, run together as one batch."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field

import numpy as np

from edgeopt.backends.base import Array, Feeds, TensorInfo
from edgeopt.bundle.runtime.asynchronous import RunThreads
from edgeopt.errors import EdgeoptError, UsageError

Run = Callable[[Feeds], dict[str, Array]]
Outputs = dict[str, Array]
Key = tuple[asyncio.AbstractEventLoop, tuple[tuple[str, str, tuple[int, ...]], ...]]

_TRIAL_SIZES = (1, 8, 32)
"""Tried for the other open dimensions of a model without samples: a kernel may need more than one."""
_TOLERANCE = 0.05
"""Of the largest value: dynamic quantization finds its ranges over a batch, which rows that mix go far beyond."""


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
    result: "Future[Outputs]" = field(default_factory=Future)


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
        self._threads = threads
        self._batching = batching
        self._groups: dict[Key, _Group] = {}

    async def run(self, feeds: Feeds | Array) -> Outputs:
        given = {self._names[0]: feeds} if not isinstance(feeds, Mapping) and len(self._names) == 1 else feeds
        rows = self._rows(given)
        if not rows or not isinstance(given, Mapping) or rows * 2 > self._batching.max_size:
            # Too large to share a batch, or wrong: the run itself says what is wrong.
            return await self._threads.run(self._run, given)  # type: ignore[arg-type] # the run refuses an array
        loop = asyncio.get_running_loop()
        key = loop, tuple((name, given[name].dtype.str, given[name].shape) for name in self._names)
        call = _Call(dict(given))
        group = self._groups.get(key)
        if group is None:
            timer = loop.call_later(self._batching.max_delay_us / 1e6, self._send, key)
            group = self._groups[key] = _Group(timer, [])
        group.calls.append(call)
        if (len(group.calls) + 1) * rows > self._batching.max_size:
            self._send(key)
        try:
            return await asyncio.wrap_future(call.result)
        except asyncio.CancelledError:
            self._leave(key, call)
            raise

    def _rows(self, feeds: Feeds | Array) -> int:
        """Samples in a call; 0 where it cannot be part of a batch."""
        if not isinstance(feeds, Mapping) or feeds.keys() != set(self._names):
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
        try:
            work = self._threads.submit(self._answer, group.calls)
        except EdgeoptError as error:
            _fail(group.calls, error)
            return
        work.add_done_callback(lambda done: _fail(group.calls, done.exception()))

    def _answer(self, calls: list[_Call]) -> None:
        # From here on a call can no longer be cancelled, so each result finds its place.
        calls = [call for call in calls if call.result.set_running_or_notify_cancel()]
        together = None
        if len(calls) > 1:
            # Where a batch fails, each call runs alone, so that only the bad one fails.
            with contextlib.suppress(EdgeoptError):
                together = run_together(self._run, [call.feeds for call in calls])
        if together is not None:
            for call, outputs in zip(calls, together, strict=True):
                call.result.set_result(outputs)
            return
        for call in calls:
            try:
                outputs = self._run(call.feeds)
            except EdgeoptError as error:
                call.result.set_exception(error)
            else:
                call.result.set_result(outputs)


def _fail(calls: Sequence[_Call], error: BaseException | None) -> None:
    """What nobody expected, and a closed session, reach all callers that have no answer yet."""
    if error is not None:
        for call in calls:
            # Answered, or cancelled just now.
            with contextlib.suppress(InvalidStateError):
                call.result.set_exception(error)


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


def check_batching(
    run: Run, inputs: tuple[TensorInfo, ...], outputs: tuple[TensorInfo, ...], samples: Sequence[Feeds]
) -> None:
    """Raises UsageError with the reason where samples cannot be run together, each with its own result.

    What the shapes leave open is tried, on the samples if there are any: a first axis may also be a sequence.
    """
    reason = _closed_axis(inputs, outputs) or _mixed(run, inputs, samples)
    if reason:
        raise UsageError(
            f"The model cannot run samples in batches: {reason}.",
            "Run them one by one, or export the model with an open batch axis, first in all inputs and outputs.",
        )


def _closed_axis(inputs: tuple[TensorInfo, ...], outputs: tuple[TensorInfo, ...]) -> str:
    if not inputs:
        return "it has no inputs"
    for kind, infos in (("input", inputs), ("output", outputs)):
        for info in infos:
            if info.rank_known and (not info.shape or isinstance(info.shape[0], int)):
                return f"the {kind} '{info.name}' has no open first axis, its shape is {list(info.shape)}"
    return ""


def _mixed(run: Run, inputs: tuple[TensorInfo, ...], samples: Sequence[Feeds]) -> str:
    """Why the rows of a batch are not those of single runs; empty where they are."""
    failure = ""
    pairs = [_pair(samples)] if samples else [made_up(inputs, size) for size in _TRIAL_SIZES]
    for pair in pairs:
        try:
            alone = [run(feeds) for feeds in pair]
            together = run_together(run, pair)
        except EdgeoptError as error:
            failure = error.message.rstrip(".")
            continue
        if together is None:
            return "an output has a different number of rows than the inputs"
        odd = next(
            (n for n in alone[0] for a, b in zip(alone, together, strict=True) if not _alike(a[n], b[n])), None
        )
        return f"in a batch, the output '{odd}' of one sample depends on the others" if odd else ""
    return f"a trial with two samples failed ({failure})"


def _alike(alone: Array, together: Array) -> bool:
    if alone.shape != together.shape:
        return False
    if alone.dtype.kind in "biuOUS" or not alone.size:
        return bool(np.array_equal(alone, together))
    a, b = alone.astype(np.float64), together.astype(np.float64)
    return bool(np.allclose(a, b, rtol=0, atol=_TOLERANCE * float(np.nanmax(np.abs(a))), equal_nan=True))


def _pair(samples: Sequence[Feeds]) -> list[Feeds]:
    """Two samples of one shape; where only one has it, its values in reverse, so that indices stay in range."""
    first, *others = samples
    for other in others:
        if all(np.shape(first[name]) == np.shape(other[name]) for name in first):
            return [first, other]
    second = {name: np.ravel(array)[::-1].reshape(np.shape(array)).copy() for name, array in first.items()}
    return [
        first,
        {name: a if a.dtype.kind in "biuOUS" else (a / 2).astype(a.dtype) for name, a in second.items()},
    ]


def made_up(inputs: tuple[TensorInfo, ...], size: int) -> list[Feeds]:
    """Two samples of made-up values; open dimensions but the first have this size."""
    from edgeopt.backends.openvino.session import numpy_dtype

    def sample(seed: int) -> Feeds:
        numbers = np.random.default_rng(seed)
        made: dict[str, Array] = {}
        for info in inputs:
            shape = [1, *(d if isinstance(d, int) else size for d in info.shape[1:])]
            if info.dtype == "str":
                made[info.name] = np.full(shape, "a", object)
                continue
            dtype = numpy_dtype(info.dtype)
            values = numbers.integers(0, 2, shape) if dtype.kind in "iub" else numbers.standard_normal(shape)
            made[info.name] = np.asarray(values).astype(dtype)
        return made

    return [sample(0), sample(1)]
