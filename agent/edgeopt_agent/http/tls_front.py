"""The TLS handshake before a connection counts as one: bounded in time and number, so that it locks nobody out."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import cast

HANDSHAKE_TIMEOUT_S = 10.0
SHUTDOWN_TIMEOUT_S = 1.0
MOST_HANDSHAKES = 128
MOST_OF_AN_ADDRESS = 64
"""The oldest handshake gives way to a new one where there are too many, first of the same address."""
log = logging.getLogger(__name__)


class TlsFront(asyncio.Protocol):
    def __init__(
        self,
        make_protocol: Callable[[], asyncio.Protocol],
        context: Callable[[], ssl.SSLContext],
        pending: "dict[TlsFront, None]",
    ) -> None:
        self._make_protocol, self._context, self._pending = make_protocol, context, pending
        self._early: list[bytes] = []
        """What came between the end of the handshake and the start of the protocol."""
        self._lost = False
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self.address = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.pause_reading()  # the handshake's first bytes are not for this protocol
        self.address = str((transport.get_extra_info("peername") or ("",))[0])
        same = [each for each in self._pending if each.address == self.address]
        if len(same) >= MOST_OF_AN_ADDRESS:
            same[0].abort()
        elif len(self._pending) >= MOST_HANDSHAKES:
            next(iter(self._pending)).abort()
        self._pending[self] = None
        self._task = asyncio.get_running_loop().create_task(self._shake(self._transport))

    def data_received(self, data: bytes) -> None:
        self._early.append(bytes(data))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._lost = True

    def abort(self) -> None:
        self._pending.pop(self, None)
        if self._task is not None:
            self._task.cancel()
        if self._transport is not None:
            self._transport.abort()

    async def _shake(self, raw: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        try:
            made = await loop.start_tls(
                *(raw, self, self._context()),
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
                ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
            )
        except OSError as error:
            log.debug("No TLS with %s: %s", self.address, error)
            raw.abort()
            return
        finally:
            self._pending.pop(self, None)
        if made is None or self._lost:
            return
        protocol = self._make_protocol()
        made.set_protocol(protocol)
        protocol.connection_made(made)
        for data in self._early:
            protocol.data_received(data)
