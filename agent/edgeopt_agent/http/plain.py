"""Plain ASGI: what the routes that must be quick use instead of request and response objects."""

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from edgeopt.platform.freed_memory import give_back
from edgeopt_agent.http.cycle import Cycle
from edgeopt_agent.settings import Settings
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.workers.channel import Body
from edgeopt_agent.workers.requests import LARGE_BYTES

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON = (b"content-type", b"application/json")
_SLOWEST_BYTES_PER_S = 64 << 10
WORTH_GIVING_BACK_BYTES = 8 << 20
GIVE_BACK_AFTER_S = 1.0


def client_of(scope: Scope) -> str:
    """Returns the address of the client; empty if it is unknown."""
    return scope["client"][0] if scope.get("client") else ""


class CrowdedError(RequestError):
    """Too many bodies are on their way at once."""


class BodyMemoryLimit:
    """A limit on the memory that all bodies in transit may take together."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = self._left_bytes = max_bytes
        self._min_left_bytes = max_bytes
        self._trim: asyncio.TimerHandle | None = None

    def take(self, size: int) -> None:
        if size > self._left_bytes:
            raise CrowdedError(503, "Too many requests are in flight; try again in a moment.")
        self._left_bytes -= size
        self._min_left_bytes = min(self._min_left_bytes, self._left_bytes)

    def give_back(self, size: int) -> None:
        self._left_bytes += size
        if self._max_bytes - self._min_left_bytes > WORTH_GIVING_BACK_BYTES and self._trim is None:
            self._trim = asyncio.get_running_loop().call_later(GIVE_BACK_AFTER_S, self._return_to_system)

    def _return_to_system(self) -> None:
        """Bodies come in pieces so small that the C library keeps their memory."""
        self._trim, self._min_left_bytes = None, self._left_bytes
        # Tens of milliseconds, for which other requests would wait.
        asyncio.get_running_loop().run_in_executor(None, give_back)


class BodyDeadline:
    """The time at which a body counts as not sent: after a silence, or when it falls behind the slowest rate."""

    def __init__(self, limit_s: float, now_s: float) -> None:
        self._limit_s = limit_s
        self._at_s = now_s + limit_s

    def left_s(self, got_bytes: int, now_s: float) -> float:
        """Returns how long the next piece may take, after one of this size."""
        self._at_s = min(self._at_s + got_bytes / _SLOWEST_BYTES_PER_S, now_s + self._limit_s)
        return self._at_s - now_s


class ClientGoneError(Exception):
    """The client went away before it had sent its request."""


async def respond(send: Send, status: int, body: Body, *headers: tuple[bytes, bytes]) -> None:
    fields = [(b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})


async def respond_json(send: Send, status: int, document: object, *headers: tuple[bytes, bytes]) -> None:
    await respond(send, status, msgspec.json.encode(document), JSON, *headers)


async def read_body(
    scope: Scope, receive: Receive, settings: Settings, memory_limit: BodyMemoryLimit
) -> list[bytes]:
    """Returns the body in the pieces in which it came; raises RequestError when it is too long or too slow."""
    announced = header(scope, b"content-length")
    maximum = settings.max_body_bytes
    if announced is not None and int(announced) > maximum:
        raise RequestError(413, f"The body has {int(announced)} bytes; at most {maximum} are taken.")
    pieces: list[bytes] = []
    size = taken = 0
    deadline = BodyDeadline(settings.body_timeout_s, time.monotonic())
    try:
        message = await _receive(receive, settings.body_timeout_s)
        while True:
            piece = message.get("body", b"")
            size += len(piece)
            if size > LARGE_BYTES:
                # Small bodies need no room, so that large ones cannot keep them out.
                memory_limit.take(size - taken)
                taken = size
            pieces.append(piece)
            if size > maximum:
                raise RequestError(413, f"The body is longer than the {maximum} bytes that are taken.")
            if not message.get("more_body", False):
                return pieces
            message = await _receive(receive, deadline.left_s(len(piece), time.monotonic()))
    finally:
        memory_limit.give_back(taken)


async def _receive(receive: Receive, limit_s: float) -> Message:
    cycle = getattr(receive, "__self__", None)
    try:
        if isinstance(cycle, Cycle) and not cycle.more_body:
            message = await receive()  # it is there already, and setting up a time limit takes longer
        else:
            async with asyncio.timeout(limit_s):
                message = await receive()
    except TimeoutError:
        raise RequestError(408, "The body of the request did not arrive in time.") from None
    if message["type"] == "http.disconnect":
        raise ClientGoneError
    return message


def header(scope: Scope, name: bytes) -> bytes | None:
    """Returns the value of a header; the first one, if it is there several times."""
    for key, value in scope["headers"]:
        if key == name:
            found: bytes = value
            return found
    return None
