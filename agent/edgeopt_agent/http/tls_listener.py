"""Accepts TLS connections; handshakes are bounded in time and number, so that idle ones lock nobody out."""

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections.abc import Callable

HANDSHAKE_TIMEOUT_S = 10.0
SHUTDOWN_TIMEOUT_S = 1.0
MAX_HANDSHAKES = 128
MAX_OF_AN_ADDRESS = 64
"""The oldest handshake gives way to a new one where there are too many, first of the same address."""
_PAUSE_S = 0.2
_NO_DESCRIPTORS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
log = logging.getLogger(__name__)


class TlsListener:
    """Unlike `create_server`, it counts connections before their handshake is over."""

    def __init__(
        self,
        sockets: list[socket.socket],
        make_protocol: Callable[[], asyncio.Protocol],
        context: Callable[[], ssl.SSLContext],
    ) -> None:
        for each in sockets:
            each.setblocking(False)
        self.sockets = sockets
        self._make_protocol, self._context = make_protocol, context
        self._pending: dict[asyncio.Task[None], tuple[str, socket.socket]] = {}
        self._accepting = [asyncio.create_task(self._accept(each), name="accept TLS") for each in sockets]

    def close(self) -> None:
        for accepting in self._accepting:
            accepting.cancel()
        for listener in self.sockets:
            listener.close()
        for handshake in list(self._pending):
            self._give_up(handshake)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(listener)
            except OSError as error:
                log.debug("No connection was accepted: %s", error)
                await asyncio.sleep(_PAUSE_S if error.errno in _NO_DESCRIPTORS else 0)
                continue
            address = str(peer[0])
            same = [each for each, (other, _) in self._pending.items() if other == address]
            if len(same) >= MAX_OF_AN_ADDRESS:
                self._give_up(same[0])
            elif len(self._pending) >= MAX_HANDSHAKES:
                self._give_up(next(iter(self._pending)))
            self._pending[loop.create_task(self._shake(accepted, address))] = (address, accepted)

    def _give_up(self, handshake: asyncio.Task[None]) -> None:
        _, accepted = self._pending.pop(handshake)
        with contextlib.suppress(OSError):
            accepted.shutdown(socket.SHUT_RDWR)
        handshake.cancel()

    async def _shake(self, accepted: socket.socket, address: str) -> None:
        this = asyncio.current_task()
        assert this is not None  # noqa: S101 - it runs as a task
        try:
            accepted.setblocking(False)
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make_protocol,
                accepted,
                ssl=self._context(),
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
                ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
            )
        except OSError as error:
            log.debug("No TLS with %s: %s", address, error)
        finally:
            self._pending.pop(this, None)
