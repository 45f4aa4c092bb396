"""Refused and malformed WebSocket handshakes, which uvicorn's protocol leaves open or logs as errors."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from edgeopt_agent.http.early import RateLimit, malformed

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

logging.getLogger("uvicorn.error").addFilter(RateLimit())


class GuardedWebSocket(WebSocketsSansIOProtocol):
    default_headers: list[tuple[bytes, bytes]]

    # Text is not decoded: a message only renews the lease, and invalid UTF-8 would be logged as an error.
    handle_text: Callable[..., None] = WebSocketsSansIOProtocol.handle_bytes

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.handshake_initiated or self.transport.is_closing():
            return
        # The head comes whole, so this one was no handshake. Without an answer it would stay open for good.
        self.handshake_initiated = self.handshake_complete = self.close_sent = True
        answer = b"".join(self.conn.data_to_send())
        self.transport.write(answer or malformed(b"", self.default_headers))
        self.transport.close()

    async def send(self, message: "ASGISendEvent") -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            self.handshake_complete = True  # or uvicorn logs a refusal as an error
