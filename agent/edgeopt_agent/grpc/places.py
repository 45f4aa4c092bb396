"""Who may read a message: the size of one is not known before it has arrived, so each takes a place."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class _Reader:
    address: str
    connection: str
    scope: asyncio.Timeout
    turn: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    since_s: float = 0.0


class Places:
    """At most half of the places go to one connection; long waits for a message give way to others."""

    def __init__(self, most: int, yields_after_s: float) -> None:
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
                late = [each for each in others if now_s - each.since_s >= self._yields_after_s]
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
