"""Frames on the agent's side of the socket, within its event loop; answers come in the order of the questions."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import NamedTuple, cast

from edgeopt_agent.workers.frames import PREFIX, Answered, FromWorker, Infer, ToWorker, from_worker, head
from edgeopt_agent.workers.requests import Request

Body = bytes | memoryview
_ROOM_BYTES = 1 << 16
_RUNS_KEPT = 1000


class ChannelClosedError(Exception):
    """The worker's end of the socket is gone."""

    def __init__(self, begun: bool = False) -> None:
        super().__init__()
        self.begun = begun
        """Whether the worker must have begun with this question: it had answered all before, and runs it alone."""


@dataclass(frozen=True, slots=True)
class Received:
    message: FromWorker
    text_bytes: int
    body: Body
    """The text and, right behind it, the data."""


class Question(NamedTuple):
    """A question that the worker has not answered yet."""

    future: asyncio.Future[Received]
    size: int
    message: ToWorker
    request: Request | None
    """The client's request that the message carries; None for a message of the agent itself."""


class Channel(asyncio.BufferedProtocol):
    """Small frames are cut out of one buffer; a large one is received into memory of its own, without copies."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._expected: deque[Question] = deque()
        self._room = bytearray(_ROOM_BYTES)
        self._have = 0
        self._large: bytearray | None = None
        self.batch_size = 1
        """Most requests that the worker runs together."""
        self.in_work: tuple[Question, ...] = ()
        """Questions that the worker may have been running when it ended: one, or the requests of a batch."""
        self.lost = asyncio.Event()
        """Set once nothing more comes from the worker."""
        self.closed = False
        self.busy_since_s = 0.0
        """Time at which the worker could begin with its next answer, by the event loop's clock."""
        self.run_s: deque[float] = deque(maxlen=_RUNS_KEPT)
        """Durations of the last answered requests in seconds, each batch counted once."""

    @property
    def unanswered_bytes(self) -> int:
        return sum(each.size for each in self._expected)

    @property
    def busy_s(self) -> float:
        """Seconds since the worker could begin with the oldest unanswered question; 0 if there is none."""
        return self._expected[0][0].get_loop().time() - self.busy_since_s if self._expected else 0.0

    def is_oldest(self, future: asyncio.Future[Received]) -> bool:
        return bool(self._expected) and self._expected[0][0] is future

    def has(self, future: asyncio.Future[Received]) -> bool:
        """Whether this question was asked here and is not answered."""
        return any(each.future is future for each in self._expected)

    @property
    def waiting(self) -> bool:
        """Whether the worker has something to answer."""
        return bool(self._expected)

    def ask(
        self,
        message: ToWorker,
        text_bytes: int = 0,
        body: Sequence[Body] = (),
        request: Request | None = None,
    ) -> asyncio.Future[Received]:
        """Sends a frame; the future gets the answer, or ChannelClosedError."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Received] = loop.create_future()
        if self.closed or self._transport is None:
            future.set_exception(ChannelClosedError())
            return future
        size = sum(map(len, body))
        if not self._expected:
            self.busy_since_s = loop.time()
        self._expected.append(Question(future, size, message, request))
        self._transport.writelines([head(message, text_bytes, size - text_bytes), *body])
        return future

    def say_goodbye(self) -> None:
        """Asks no more questions: the worker ends when it has answered those that it has."""
        if self._transport is not None and not self.closed and self._transport.can_write_eof():
            self._transport.write_eof()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, _error: Exception | None) -> None:
        self.closed = True
        self.in_work = self._running()
        begun = len(self.in_work) == 1
        while self._expected:
            future = self._expected.popleft().future
            if not future.done():
                future.set_exception(ChannelClosedError(begun))
            begun = False
        self.lost.set()

    def _running(self) -> tuple[Question, ...]:
        """Returns what the worker may be running: the oldest question, and those that may share its run."""
        shared = takewhile(lambda each: isinstance(each.message, Infer) and not each.message.alone, self._expected)
        return tuple(islice(shared, self.batch_size)) or tuple(islice(self._expected, 1))

    def get_buffer(self, _size_hint: int) -> memoryview:
        return memoryview(self._room if self._large is None else self._large)[self._have :]

    def buffer_updated(self, count: int) -> None:
        self._have += count
        if self._large is not None:
            if self._have == len(self._large):
                frame, self._large, self._have = self._large, None, 0
                self._deliver(memoryview(frame))
            return
        view = memoryview(self._room)
        place = 0
        while self._have - place >= PREFIX.size:
            size = PREFIX.size + sum(PREFIX.unpack_from(view, place))
            if self._have - place < size:
                if size > _ROOM_BYTES:
                    self._large = bytearray(size)
                    self._large[: self._have - place] = view[place : self._have]
                break
            self._deliver(bytes(view[place : place + size]))
            place += size
        if place and self._large is None:
            self._room[: self._have - place] = view[place : self._have]
        self._have -= place

    def _deliver(self, frame: Body) -> None:
        header_bytes, text_bytes, _ = PREFIX.unpack_from(frame)
        start = PREFIX.size + header_bytes
        message = from_worker.decode(frame[PREFIX.size : start])
        future = self._expected.popleft().future
        now_s = future.get_loop().time()
        if isinstance(message, Answered) and message.status == 200 and message.executions:
            self.run_s.append(now_s - self.busy_since_s)
        self.busy_since_s = now_s
        if not future.done():
            future.set_result(Received(message, text_bytes, frame[start:]))
