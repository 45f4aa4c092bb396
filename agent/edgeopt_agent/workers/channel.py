"""Frames on the agent's side of the socket, within its event loop; answers come in the order of the questions."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from edgeopt_agent.workers.frames import PREFIX, Answered, FromWorker, ToWorker, from_worker, head

Body = bytes | memoryview
_ROOM_BYTES = 1 << 16
_RUNS_KEPT = 1000


class ChannelClosedError(Exception):
    """The worker's end of the socket is gone."""

    def __init__(self, begun: bool = False) -> None:
        super().__init__()
        self.begun = begun
        """Whether the worker may have begun with this question: it was the next one to be answered."""


@dataclass(frozen=True, slots=True)
class Received:
    message: FromWorker
    text_bytes: int
    body: Body
    """The text and, right behind it, the data."""


class Channel(asyncio.BufferedProtocol):
    """Small frames are cut out of one buffer; a large one is received into memory of its own, without copies."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._expected: deque[tuple[asyncio.Future[Received], int, ToWorker]] = deque()
        """Each unanswered question: who waits for the answer, the bytes of its body, and the question."""
        self._room = bytearray(_ROOM_BYTES)
        self._have = 0
        self._large: bytearray | None = None
        self.working_on: ToWorker | None = None
        """What the worker was asked when it ended."""
        self.closed = False
        self.busy_since_s = 0.0
        """When the worker could begin with what it has to answer next, by the event loop's clock."""
        self.run_s: deque[float] = deque(maxlen=_RUNS_KEPT)
        """How long the last answered requests took, each batch once."""

    @property
    def unanswered_bytes(self) -> int:
        return sum(size for _, size, _ in self._expected)

    @property
    def busy_s(self) -> float:
        """How long the oldest unanswered question has been with the worker; 0 if there is none."""
        return self._expected[0][0].get_loop().time() - self.busy_since_s if self._expected else 0.0

    def is_oldest(self, future: asyncio.Future[Received]) -> bool:
        return bool(self._expected) and self._expected[0][0] is future

    def has(self, future: asyncio.Future[Received]) -> bool:
        """Whether this question was asked here and is not answered."""
        return any(each is future for each, _, _ in self._expected)

    @property
    def waiting(self) -> bool:
        """Whether the worker has something to answer."""
        return bool(self._expected)

    def ask(self, message: ToWorker, text_bytes: int = 0, body: Sequence[Body] = ()) -> asyncio.Future[Received]:
        """Sends a frame; the future gets the answer, or ChannelClosedError."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Received] = loop.create_future()
        if self.closed or self._transport is None:
            future.set_exception(ChannelClosedError())
            return future
        size = sum(map(len, body))
        if not self._expected:
            self.busy_since_s = loop.time()
        self._expected.append((future, size, message))
        self._transport.writelines([head(message, text_bytes, size - text_bytes), *body])
        return future

    def say_goodbye(self) -> None:
        """No more questions: the worker ends when it has answered those that it has."""
        if self._transport is not None and not self.closed and self._transport.can_write_eof():
            self._transport.write_eof()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, _error: Exception | None) -> None:
        self.closed = True
        self.working_on = self._expected[0][2] if self._expected else None
        begun = True
        while self._expected:
            future, _, _ = self._expected.popleft()
            if not future.done():
                future.set_exception(ChannelClosedError(begun))
            begun = False

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
        future, _, _ = self._expected.popleft()
        now_s = future.get_loop().time()
        if isinstance(message, Answered) and message.status == 200 and message.executions:
            self.run_s.append(now_s - self.busy_since_s)
        self.busy_since_s = now_s
        if not future.done():
            future.set_result(Received(message, text_bytes, frame[start:]))
