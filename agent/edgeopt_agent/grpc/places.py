"""Turns for reading messages: the size of a message is not known before it has arrived."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from edgeopt_agent.grpc.received import ReceivedBytes, address_and_port
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.workers.router import QueueFullError

QUICK_S = 0.25
"""A message that has not come by then is slow: it needs no place, and what its connection receives is counted."""
_NOTHING_BYTES = 1 << 10
"""Pings and window updates come on a connection whose calls are silent too."""


@dataclass(eq=False, slots=True)
class Reader:
    """A call that waits for its message."""

    address: str
    connection: str
    give_up: Callable[[RequestError], None]
    """Ends the call before its message has come."""
    end_s: float
    """Time at which the call is given up."""
    since_s: float = 0.0
    """Since when it reads, or waits for that."""
    turn: asyncio.Future[None] | None = None
    """Done when it may read; None where it need not wait."""
    error: RequestError | None = None
    """Reason why the call was given up."""
    seen: tuple[float, int] | None = None
    """Time at which the call was last seen to receive, and the bytes that its connection had received by then."""
    first_bytes: int = 0
    """Bytes that its connection had received when the call became slow."""

    def stop_waiting(self) -> None:
        """Ends the wait for a turn because the client is gone; a read that has begun ends by itself."""
        if self.turn is not None and not self.turn.done():
            self.error = RequestError(408, "The client ended the call.")
            self.turn.set_result(None)


@dataclass(frozen=True, slots=True)
class ReadLimits:
    places: int
    """Number of messages that may be read at once; one connection gets at most half of them."""
    max_bytes: int
    """Most bytes of all slow messages together."""
    message_bytes: int
    """Largest message."""
    slow_each: int
    """Slow messages of one connection."""
    silent_s: float


class Places:
    """Messages that come at once take places in turn; slow ones share a number of bytes."""

    def __init__(self, limits: ReadLimits, received: Callable[[set[str]], dict[str, int]] | None = None) -> None:
        self._limits = limits
        self._max_each = max(1, limits.places // 2)
        self._received = received or ReceivedBytes()
        self._quick: dict[Reader, None] = {}
        self._slow: dict[Reader, None] = {}
        self._waiting: dict[str, dict[Reader, None]] = {}
        """Waiting calls of each connection, oldest first."""
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, connection: str, limit_s: float, give_up: Callable[[RequestError], None]) -> Reader:
        """Enters a call that wants to read: it may read when its `turn` is done, and calls `leave` afterwards."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        reader = Reader(client_of(connection), connection, give_up, now_s + limit_s, now_s)
        if not self._waiting and self._fits(connection):
            self._quick[reader] = None
        else:
            reader.turn = loop.create_future()
            self._waiting.setdefault(connection, {})[reader] = None
            self._assign(now_s)
        if self._timer is None:
            self._timer = loop.call_later(min(QUICK_S, limit_s), self._look)
        return reader

    def leave(self, reader: Reader) -> None:
        self._quick.pop(reader, None)
        self._slow.pop(reader, None)
        if self._waiting:
            self._stop_waiting(reader)
            self._assign(asyncio.get_running_loop().time())

    def _stop_waiting(self, reader: Reader) -> None:
        waiting = self._waiting.get(reader.connection, {})
        waiting.pop(reader, None)
        if not waiting:
            self._waiting.pop(reader.connection, None)

    def _fits(self, connection: str) -> bool:
        """Whether a call of this connection may read."""
        if len(self._quick) >= self._limits.places or _count(self._quick, connection) >= self._max_each:
            return False
        return not self._slow or _count(self._slow, connection) < self._limits.slow_each

    def _assign(self, now_s: float) -> None:
        # Clients with the fewest places first, and in the order of their coming.
        while fitting := [next(iter(each)) for name, each in self._waiting.items() if self._fits(name)]:
            reader = min(fitting, key=self._share)
            self._stop_waiting(reader)
            self._quick[reader] = None
            reader.since_s = now_s
            if reader.turn is not None and not reader.turn.done():
                reader.turn.set_result(None)

    def _share(self, reader: Reader) -> tuple[int, int, float]:
        held = (*self._quick, *self._slow)
        of_address = sum(each.address == reader.address for each in held)
        return of_address, _count(held, reader.connection), reader.since_s

    def _look(self) -> None:
        """Checks all readers at intervals while there are any: a timer each would take longer than most reads."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        waiting = [reader for each in self._waiting.values() for reader in each]
        for reader in [*self._quick, *self._slow, *waiting]:
            if now_s >= reader.end_s:
                self._end(reader, RequestError(408, "The request did not arrive in time."))
        late = [each for each in self._quick if now_s - each.since_s >= QUICK_S]
        for reader in late:
            del self._quick[reader]
            self._slow[reader] = None
        if self._slow:
            self._look_at_slow(now_s)
        self._assign(now_s)
        self._timer = None
        if self._quick or self._slow or self._waiting:
            self._timer = loop.call_later(QUICK_S, self._look)

    def _look_at_slow(self, now_s: float) -> None:
        received = self._received({each.connection for each in self._slow})
        for reader in list(self._slow):
            if (total := received.get(reader.connection)) is None:
                continue
            if reader.seen is None:
                reader.first_bytes = total
            elif total - reader.seen[1] < _NOTHING_BYTES:
                if now_s - reader.seen[0] >= self._limits.silent_s - QUICK_S:
                    self._end(reader, RequestError(408, "The request did not arrive in time."))
                continue
            reader.seen = (now_s, total)
        while self._slow and sum((taken := self._taken(received)).values()) > self._limits.max_bytes:
            largest = max(taken, key=taken.__getitem__)
            *others, latest = (each for each in self._slow if each.connection == largest)
            for each in others:  # without the bytes of the one that ends, as if all had the same
                each.first_bytes += taken[largest] // (len(others) + 1)
            self._end(latest, QueueFullError(503, "Too many requests are in flight; try again in a moment."))

    def _taken(self, received: dict[str, int]) -> Counter[str]:
        """Returns the most bytes that the slow messages of each connection can have in memory."""
        maximum: Counter[str] = Counter()
        first: dict[str, int] = {}
        for reader in self._slow:
            maximum[reader.connection] += self._limits.message_bytes
            first[reader.connection] = min(reader.first_bytes, first.get(reader.connection, reader.first_bytes))
        for connection, total in received.items():
            if connection in maximum:
                maximum[connection] = min(maximum[connection], total - first[connection])
        return maximum

    def _end(self, reader: Reader, error: RequestError) -> None:
        self.leave(reader)
        reader.error = error
        if reader.turn is not None and not reader.turn.done():
            reader.turn.set_result(None)
        reader.give_up(error)


def _count(readers: Iterable[Reader], connection: str) -> int:
    return sum(each.connection == connection for each in readers)


def client_of(peer: str) -> str:
    """Returns the address of a connection, as the library writes it."""
    return address_and_port(peer)[0]
