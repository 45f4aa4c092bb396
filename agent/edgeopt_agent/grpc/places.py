"""Who may read a message: the size of one is not known before it has arrived, so each takes a place."""

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

_SLOWEST_BYTES_PER_S = 64 << 10
_TCP_INFO = struct.Struct("=128xQ")
"""`tcpi_bytes_received` in `struct tcp_info` of linux/tcp.h."""
_MAPPED = "::ffff:"


@dataclass(eq=False, slots=True)
class _Reader:
    address: str
    connection: str
    scope: asyncio.Timeout
    turn: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    since_s: float = 0.0
    """Since when it has its place, or was last seen to receive."""
    seen: tuple[float, int] | None = None
    """When others first waited, and what its connection had received by then."""


class Places:
    """At most half of the places go to one connection; long waits for a message give way to others."""

    def __init__(
        self, most: int, yields_after_s: float, received: Callable[[str], int | None] | None = None
    ) -> None:
        self._received = received or received_bytes
        self._most = most
        self._most_each = max(1, most // 2)
        self._yields_after_s = yields_after_s
        self._held: list[_Reader] = []
        self._waiting: list[_Reader] = []
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def place(self, address: str, connection: str, scope: asyncio.Timeout) -> AsyncIterator[None]:
        """Waits for a place; the scope ends, as if its time were over, when the place goes to another call."""
        reader = _Reader(address, connection, scope)
        self._waiting.append(reader)
        self._assign()
        try:
            await reader.turn
            yield
        finally:
            for readers in (self._held, self._waiting):
                if reader in readers:
                    readers.remove(reader)
            self._assign()

    def _assign(self) -> None:
        now_s = asyncio.get_running_loop().time()
        # Clients with the fewest places first, and in the order of their coming.
        for reader in sorted(self._waiting, key=self._share):
            own = [each for each in self._held if each.connection == reader.connection]
            others: Sequence[_Reader] = own if len(own) >= self._most_each else self._held
            if others is own or len(self._held) >= self._most:
                late = [each for each in others if self._is_silent(each, now_s)]
                if not late:
                    continue
                loser = max(late, key=lambda each: (*self._share(each), now_s - each.since_s))
                self._held.remove(loser)
                if not loser.scope.expired():
                    loser.scope.reschedule(now_s)
            self._waiting.remove(reader)
            self._held.append(reader)
            reader.since_s = now_s
            if not reader.turn.done():
                reader.turn.set_result(None)
        self._look_again(now_s)

    def _is_silent(self, reader: _Reader, now_s: float) -> bool:
        """Whether nothing worth waiting for came on its connection; its own messages cannot be told apart."""
        late = now_s - reader.since_s >= self._yields_after_s
        if reader.seen is not None and not late:
            return False
        received = self._received(reader.connection)
        if received is None:
            return late
        if late and reader.seen is not None:
            before_s, before = reader.seen
            if received - before < _SLOWEST_BYTES_PER_S * (now_s - before_s):
                return True
        reader.seen = (now_s, received)
        if late:
            reader.since_s = now_s
        return False

    def _share(self, reader: _Reader) -> tuple[int, int]:
        return (
            sum(each.address == reader.address for each in self._held),
            sum(each.connection == reader.connection for each in self._held),
        )

    def _look_again(self, now_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            due_s = [each.since_s + self._yields_after_s for each in self._held]
            later_s = min((each for each in due_s if each > now_s), default=None)
            if later_s is not None:
                self._timer = asyncio.get_running_loop().call_at(later_s, self._assign)


def client_of(peer: str) -> str:
    """The address in `ipv4:ADDRESS:PORT` or `ipv6:[ADDRESS]:PORT`, whose brackets may be escaped."""
    return unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]")


def received_bytes(peer: str) -> int | None:
    """What came on a connection so far; gRPC's library does not tell. None where that is not known."""
    wanted = (client_of(peer), peer.rpartition(":")[2])
    try:
        descriptors = [int(each.name) for each in Path("/proc/self/fd").iterdir()]
    except OSError:
        return None
    for descriptor in descriptors:
        try:
            with socket.socket(fileno=os.dup(descriptor)) as found:
                name = found.getpeername()
                if not (isinstance(name, tuple) and (name[0].removeprefix(_MAPPED), str(name[1])) == wanted):
                    continue
                info = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
                received: int = _TCP_INFO.unpack(info)[0]
                return received
        except (OSError, struct.error):
            continue  # no connection, or one that has just ended
    return None
