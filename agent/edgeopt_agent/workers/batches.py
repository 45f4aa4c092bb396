"""Requests that wait at the same time, run together as one batch; loaded by workers with `batch_max_size` only."""

import dataclasses
import statistics
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from edgeopt.backends.base import Feeds
from edgeopt.bundle.runtime.batching import check_batching, run_together
from edgeopt.bundle.runtime.session import Session
from edgeopt.errors import EdgeoptError, UsageError
from edgeopt_agent.v2.request import Inference
from edgeopt_agent.workers.child_io import Frame, Frames
from edgeopt_agent.workers.frames import Batching, Infer, Load
from edgeopt_agent.workers.served import Reply, Served

LEAST_GAIN = 1.05
"""A batch of two must be this many times as fast as two single runs, or noise would decide."""
_WARM_ROUNDS, _FEWEST_ROUNDS, _MOST_ROUNDS = 2, 5, 30
_ENOUGH_S = 0.5

_Key = tuple[bool, tuple[tuple[str, str, tuple[int, ...]], ...]]


def judge_batching(session: Session, wanted: Load) -> Batching:
    """Whether batches are right and pay on this device, with the reason."""

    def judged(used: bool, reason: str) -> Batching:
        return Batching(wanted.batch_max_size, wanted.batch_max_delay_us, used, reason)

    samples = session.golden()
    try:
        check_batching(session.run, session.inputs, session.outputs, samples)
        if not samples:
            return judged(False, "The bundle has no golden samples to try a batch with.")
        one = samples[0]
        rows = _rows(one)
        if rows * 2 > wanted.batch_max_size:
            return judged(False, f"Its golden samples have {rows} rows, so no two fit batch_max_size.")
        session.run(_repeated(one, wanted.batch_max_size // rows))
        gain = _gain(session, one)
    except UsageError as error:
        return judged(False, error.message)
    except (EdgeoptError, MemoryError) as error:
        return judged(False, f"A batch of {wanted.batch_max_size} failed: {error}")
    said = f"A batch of two is {gain:.2f} times as fast as two single runs"
    if gain < LEAST_GAIN:
        return judged(False, f"{said}; at least {LEAST_GAIN} times is required.")
    return judged(True, f"{said}.")


def _gain(session: Session, one: Feeds) -> float:
    two = _repeated(one, 2)
    apart: list[float] = []
    together: list[float] = []
    begin = time.perf_counter()
    for number in range(_WARM_ROUNDS + _MOST_ROUNDS):
        start = time.perf_counter()
        session.run(one)
        session.run(one)
        middle = time.perf_counter()
        session.run(two)
        end = time.perf_counter()
        if number >= _WARM_ROUNDS:
            apart.append(middle - start)
            together.append(end - middle)
        if len(apart) >= _FEWEST_ROUNDS and end - begin > _ENOUGH_S:
            break
    return statistics.median(apart) / statistics.median(together)


def _repeated(feeds: Feeds, times: int) -> dict[str, NDArray[np.generic]]:
    return {name: np.concatenate([array] * times) for name, array in feeds.items()}


def _rows(feeds: Feeds) -> int:
    """The rows of a request; 0 where its inputs have different numbers of them."""
    rows = {len(array) if array.ndim else 0 for array in feeds.values()}
    return rows.pop() if len(rows) == 1 else 0


@dataclass(slots=True)
class _Pending:
    message: Infer
    wanted: Inference | None = None
    reply: Reply | None = None

    def detach(self) -> None:
        """Copies tensors out of the frame, whose memory the next frame takes."""
        if self.wanted is not None:
            feeds = {name: array.copy() for name, array in self.wanted.feeds.items()}
            self.wanted = dataclasses.replace(self.wanted, feeds=feeds)


class Batches:
    """Answers frames in their order; requests of equal shapes and types among those that wait share a run."""

    def __init__(self, served: Served, frames: Frames, batching: Batching) -> None:
        self._served = served
        self._frames = frames
        self._batching = batching

    def answer(self, first: Frame) -> Iterator[Reply]:
        """The replies to this frame, and to those that came within the delay."""
        if not isinstance(first.message, Infer):
            yield self._served.answer(first)
            return
        pending, other = self._collect(first.message, first)
        for group in self._groups(pending):
            self._run(group)
        for each in pending:
            assert each.reply is not None  # noqa: S101 - each was in a group, or refused when it was read
            yield each.reply
        if other is not None:
            yield self._served.answer(other)

    def _collect(self, message: Infer, frame: Frame) -> tuple[list[_Pending], Frame | None]:
        """The requests of a batch, and the frame behind them that is no request, if one came."""
        deadline = time.perf_counter() + self._batching.max_delay_us / 1e6
        pending = [self._read(message, frame)]
        room = self._served.loaded.max_body_bytes - len(frame.text) - len(frame.data)
        while len(pending) < self._batching.max_size and room > 0 and self._shares(pending[-1]):
            if not self._frames.ready(max(0.0, deadline - time.perf_counter())):
                break
            pending[-1].detach()
            following = self._frames.receive()
            if following is None:
                break
            if not isinstance(following.message, Infer):
                return pending, following
            pending.append(self._read(following.message, following))
            room -= len(following.text) + len(following.data)
        return pending, None

    def _read(self, message: Infer, frame: Frame) -> _Pending:
        found = _Pending(message)

        def read() -> Reply | None:
            found.wanted = self._served.read(message, frame.text, frame.data)
            return None

        found.reply = self._served.guarded(message, read)
        return found

    def _shares(self, pending: _Pending) -> bool:
        """Whether a request leaves room for another one; others wait neither for it nor behind it."""
        if pending.wanted is None or pending.wanted.sequence is not None:
            return False
        rows = _rows(pending.wanted.feeds)
        return 0 < rows * 2 <= self._batching.max_size

    def _groups(self, pending: Iterable[_Pending]) -> list[list[_Pending]]:
        open_groups: dict[_Key, list[_Pending]] = {}
        groups: list[list[_Pending]] = []
        for each in pending:
            if each.wanted is None:
                continue
            feeds = each.wanted.feeds
            shapes = tuple((name, feeds[name].dtype.str, feeds[name].shape) for name in sorted(feeds))
            key = each.wanted.sequence is not None, shapes
            group = open_groups.get(key)
            if (
                group is None
                or not self._shares(each)
                or (len(group) + 1) * _rows(feeds) > self._batching.max_size
            ):
                group = open_groups[key] = []
                groups.append(group)
            group.append(each)
        return groups

    def _run(self, group: list[_Pending]) -> None:
        if len(group) > 1 and self._run_together(group):
            return
        # Where a batch fails, each request runs alone, so that only the bad one fails.
        for each in group:
            if (wanted := each.wanted) is not None:
                each.reply = self._served.guarded(each.message, partial(self._served.run, each.message, wanted))

    def _run_together(self, group: list[_Pending]) -> bool:
        requests = [(each, each.wanted) for each in group if each.wanted is not None]
        start = time.perf_counter()
        try:
            results = run_together(self._served.session.run, [wanted.feeds for _, wanted in requests])
        except Exception:  # noqa: BLE001 - whatever it is, the single runs report it
            return False
        if results is None:
            return False
        compute_ms = (time.perf_counter() - start) * 1e3
        executions = 1
        for (each, wanted), own in zip(requests, results, strict=True):
            write = partial(self._served.write, each.message, wanted, own, compute_ms, len(requests), executions)
            each.reply = self._served.guarded(each.message, write)
            executions = 0  # the first request counts the run
        return True
