"""What uvicorn's protocols do not limit: how many connect, how large and slow a head is, how slowly one reads."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from uvicorn import Config
from uvicorn.server import ServerState

from edgeopt_agent.http.joined import JoinedTransport

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as Protocol
else:
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Protocol
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol as Protocol

MOST_CONNECTIONS = 512
HEAD_TIMEOUT_S = 10.0
MOST_HEAD_BYTES = 64 << 10
READ_TIMEOUT_S = 30.0
"""Who takes nothing of an answer for so long is cut off: the answer waits in memory."""


def guarded(
    config: Config, state: ServerState, headers: Callable[[], list[tuple[bytes, bytes]]]
) -> Callable[[], asyncio.Protocol]:
    """Makes one protocol a connection; every answer gets these headers."""
    return lambda: GuardedProtocol(config, state, headers)


class GuardedProtocol(Protocol):
    def __init__(
        self, config: Config, state: ServerState, headers: Callable[[], list[tuple[bytes, bytes]]]
    ) -> None:
        super().__init__(config=config, server_state=state, app_state={})
        self._default_headers = headers
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        joined = JoinedTransport(cast(asyncio.Transport, transport), self.loop)
        super().connection_made(cast(asyncio.Transport, joined))
        if len(self.connections) > MOST_CONNECTIONS:
            self.transport.abort()
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_there()
        self._is_read()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        self._is_read()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        self.server_state.default_headers = self._default_headers()
        before = self.cycle
        super().data_received(data)
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            self._head_is_there()
        elif self.cycle is not before or not (before is None or before.response_complete):
            # A request's head is complete; its body has a time limit of its own.
            self._head_bytes = 0
            self._head_is_there()
        else:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self.transport.abort()
            elif self._head_timer is None:
                self._await_head()

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.abort)

    def _await_reader(self) -> None:
        unread_bytes = self.transport.get_write_buffer_size()
        self._read_timer = self.loop.call_later(READ_TIMEOUT_S, self._look_at_reader, unread_bytes)

    def _look_at_reader(self, unread_bytes: int) -> None:
        if self.transport.get_write_buffer_size() < unread_bytes:
            self._await_reader()
        else:
            self.transport.abort()

    def _is_read(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _head_is_there(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
