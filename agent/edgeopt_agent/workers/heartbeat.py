"""A socket beside the channel on which a worker answers at once, whatever it computes; both sides of it."""

import asyncio
import socket
import threading
from contextlib import suppress
from typing import cast

_BEAT = b"?"


class Heartbeat(asyncio.Protocol):
    """The agent's side: at most one question is under way."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._pending: asyncio.Future[None] | None = None
        self.closed = False

    async def answers(self, limit_s: float) -> bool:
        """Whether the worker answers within the limit; False also when it has ended."""
        if self.closed or self._transport is None:
            return False
        if self._pending is None:
            self._pending = asyncio.get_running_loop().create_future()
            self._transport.write(_BEAT)
        pending = self._pending
        await asyncio.wait([pending], timeout=limit_s)
        return pending.done() and not self.closed

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, _data: bytes) -> None:
        self._settle()

    def connection_lost(self, _error: Exception | None) -> None:
        self.closed = True
        self._settle()

    def _settle(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.set_result(None)


def answer_heartbeats(connection: socket.socket) -> None:
    """Answers the agent's heartbeats, in a thread of its own."""

    def echo() -> None:
        with suppress(OSError):
            while beat := connection.recv(len(_BEAT)):
                connection.sendall(beat)

    threading.Thread(target=echo, daemon=True, name="heartbeat").start()
