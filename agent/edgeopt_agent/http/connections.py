"""Limits of connections, in total and per address, and which connection closes when a limit is reached.

Control and health have reserved connections, so that inference clients cannot lock them out.
"""

import asyncio
import sys
from collections.abc import Sequence
from typing import Protocol

from edgeopt_agent.http.plain import App, Message, Receive, Scope, Send, respond_json

MAX_CONNECTIONS = 512
MAX_OF_AN_ADDRESS = 256
RESERVED_CONNECTIONS = 32
MAX_VIEWERS = 64
"""WebSockets, which a client can keep open for as long as it likes."""
IDLE_S = 1.0
"""A connection without a request for this long gives way to a new one where there are too many."""
_DESCRIPTORS_FOR_WORKERS = 96
_RESERVED_PREFIXES = ("/api/v1/", "/v2/health/", "/metrics")


class Connection(Protocol):
    """A connection, as far as the limits on connections need to know it."""

    reserved: bool
    client: tuple[str, int] | None
    transport: asyncio.Transport

    @property
    def idle_since_s(self) -> float | None: ...

    def reserve(self) -> None: ...


def admit(new: Connection, others: Sequence[Connection], websockets: int, now_s: float) -> bool:
    """Whether a new connection may stay: as an ordinary one, or in the reserved share."""
    ordinary = [each for each in others if not each.reserved]
    reserved = [each for each in others if each.reserved]
    same = [each for each in ordinary if _address(each) == _address(new)]
    crowds = ((same, MAX_OF_AN_ADDRESS), (ordinary, max_connections() - websockets))
    for crowd, maximum in crowds:
        if len(crowd) >= maximum and not _close_idle(crowd, now_s, IDLE_S):
            new.reserve()
            return len(reserved) < RESERVED_CONNECTIONS or _close_idle(reserved, now_s, 0.0)
    return True


def max_connections() -> int:
    """Returns the limit, or fewer if the process may open few files: workers need descriptors as well."""
    if sys.platform == "win32":
        return MAX_CONNECTIONS
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, soft - RESERVED_CONNECTIONS - _DESCRIPTORS_FOR_WORKERS))


def _close_idle(crowd: Sequence[Connection], now_s: float, idle_s: float) -> bool:
    """Closes the connection that has been idle longest, if that is longer than the limit."""
    idle = [(each.idle_since_s, each) for each in crowd]
    since_s, oldest = min(
        ((since, each) for since, each in idle if since is not None),
        key=lambda pair: pair[0],
        default=(now_s, None),
    )
    if oldest is None or now_s - since_s < idle_s:
        return False
    oldest.transport.abort()
    return True


def _address(connection: Connection) -> str:
    return connection.client[0] if connection.client else ""


def reserved_only(app: App) -> App:
    """Wraps the application for reserved connections: control and health only, one answer a connection."""

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
            await send(message)

        path = scope["path"]
        if path.startswith(_RESERVED_PREFIXES):
            await app(scope, receive, closing)
            return
        sentence = "Too many connections are open; close some, or try again in a moment."
        error: object = sentence
        if not path.startswith("/v2"):
            error = {
                "code": "too-many-connections",
                "message": sentence,
                "hint": "See docs/agent.md, Request limits.",
            }
        await respond_json(closing, 503, {"error": error}, (b"retry-after", b"1"))

    return limited
