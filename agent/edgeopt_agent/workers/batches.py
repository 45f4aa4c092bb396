"""Requests that wait at the same time, run together as one batch; loaded by workers with `batch_max_size` only."""

import dataclasses
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from edgeopt.bundle.runtime.batching import rows_of, run_together
from edgeopt.fleet.records import ServerBatching
from edgeopt_agent.v2.request import Inference
from edgeopt_agent.workers.child_io import Frame, Frames
from edgeopt_agent.workers.frames import Infer
from edgeopt_agent.workers.served import Reply, Served

_Key = tuple[bool, tuple[tuple[str, str, tuple[int, ...]], ...]]


@dataclass(slots=True)
class _Pending:
    message: Infer
    inference: Inference | None = None
    reply: Reply | None = None

    def detach(self) -> None:
        """Copies tensors out of the frame, whose memory the next frame takes."""
        if self.inference is not None:
            feeds = {name: array.copy() for name, array in self.inference.feeds.items()}
            self.inference = dataclasses.replace(self.inference, feeds=feeds)


class Batches:
    """Answers frames in their order; requests of equal shapes and types among those that wait share a run."""

    def __init__(self, served: Served, frames: Frames, batching: ServerBatching) -> None:
        self._served = served
        self._frames = frames
        self._batching = batching

    def answer(self, first: Frame) -> Iterator[Reply]:
        """Yields the replies to this frame, and to those that came within the delay."""
        if not isinstance(first.message, Infer):
            yield self._served.answer(first)
            return
        pending, other = self._collect(first.message, first)
        sent = 0
        # The empty one for what was refused when it was read.
        for group in (*self._groups(pending), []):
            self._run(group)
            while sent < len(pending) and (reply := pending[sent].reply) is not None:
                yield reply
                sent += 1
        if other is not None:
            yield self._served.answer(other)

    def _collect(self, message: Infer, frame: Frame) -> tuple[list[_Pending], Frame | None]:
        """Returns the requests of a batch, and the frame after them that is not a request, if one came."""
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
            if frame.too_large:
                raise MemoryError
            found.inference = self._served.read(message, frame.text, frame.data)
            return None

        found.reply = self._served.guarded(message, read)
        return found

    def _shares(self, pending: _Pending) -> bool:
        """Whether a request leaves room for another one; others wait neither for it nor behind it."""
        if pending.message.alone or pending.inference is None or pending.inference.sequence is not None:
            return False
        rows = rows_of(pending.inference.feeds)
        return 0 < rows * 2 <= self._batching.max_size

    def _groups(self, pending: Iterable[_Pending]) -> list[list[_Pending]]:
        open_groups: dict[_Key, list[_Pending]] = {}
        groups: list[list[_Pending]] = []
        for each in pending:
            if each.inference is None:
                continue
            feeds = each.inference.feeds
            shapes = tuple((name, feeds[name].dtype.str, feeds[name].shape) for name in sorted(feeds))
            key = each.inference.sequence is not None, shapes
            group = open_groups.get(key)
            if (
                group is None
                or not self._shares(each)
                or (len(group) + 1) * rows_of(feeds) > self._batching.max_size
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
            if (inference := each.inference) is not None:
                each.reply = self._served.guarded(each.message, partial(self._served.run, each.message, inference))

    def _run_together(self, group: list[_Pending]) -> bool:
        requests = [(each, each.inference) for each in group if each.inference is not None]
        start = time.perf_counter()
        try:
            results = run_together(self._served.session.run, [inference.feeds for _, inference in requests])
        except Exception:  # noqa: BLE001 - whatever it is, the single runs report it
            return False
        if results is None:
            return False
        compute_ms = (time.perf_counter() - start) * 1e3
        executions = 1
        for (each, inference), own in zip(requests, results, strict=True):
            write = partial(
                self._served.write, each.message, inference, own, compute_ms, len(requests), executions
            )
            each.reply = self._served.guarded(each.message, write)
            executions = 0  # the first request counts the run
        return True
