"""One call: who may make it, its messages within limits, and errors as gRPC's codes."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, NoReturn, Protocol, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from edgeopt.platform.freed_memory import give_back
from edgeopt_agent.grpc.places import Places, Reader, ReadLimits, client_of
from edgeopt_agent.http.access import Access
from edgeopt_agent.http.plain import GIVE_BACK_AFTER_S, WORTH_GIVING_BACK_BYTES
from edgeopt_agent.own_commands import for_client
from edgeopt_agent.settings import Settings
from edgeopt_agent.tokens import Role
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.v2.messages import message_class
from edgeopt_agent.workers.router import QueueFullError

MAX_SLOW_BYTES = 256 << 20
"""Most bytes of all slow messages together (see `Places`); more if `max_body_bytes` is larger."""
_PLACES = 16
_SLOW_EACH = 16
_HEALTH_PLACES = 4
_MAX_SMALL_BYTES = 1 << 16
"""Largest message that the agent itself reads, in its event loop."""
ALL_OF_IPV4 = "0.0.0.0"  # noqa: S104 - compared, not bound
Found = TypeVar("Found")
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    422: grpc.StatusCode.FAILED_PRECONDITION,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    501: grpc.StatusCode.UNIMPLEMENTED,
    503: grpc.StatusCode.UNAVAILABLE,
    507: grpc.StatusCode.RESOURCE_EXHAUSTED,
}


class Context(Protocol):
    """Typed part of the gRPC library's servicer context, which has no types of its own."""

    def invocation_metadata(self) -> Iterable[tuple[str, str]] | None: ...

    def peer(self) -> str: ...

    def set_trailing_metadata(self, metadata: tuple[tuple[str, str], ...]) -> None: ...

    async def read(self) -> object:
        """Returns the next message of the client as bytes, or `grpc.aio.EOF`."""

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn: ...


class Call:
    """A call with one request; its work is a task of its own, which continues when the client is gone.

    gRPC's library must not lose a read in the middle, and a request that hangs its worker has to be noticed by its
    own time limit, even where the client's was shorter.
    """

    __slots__ = ("_outcome", "_working", "context", "peer", "reader")

    def __init__(self, context: Context) -> None:
        self.context = context
        self.peer = context.peer()
        self.reader: Reader | None = None
        """Set while the request is awaited."""
        self._outcome: asyncio.Future[bytes | RequestError] | None = None
        """Result of the call that somebody waits for; None when nobody does."""

    async def result(self, work: Coroutine[Any, Any, bytes]) -> bytes:
        """Returns the result of the work; raises the RequestError with which the work ends or is given up."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[bytes | RequestError] = loop.create_future()
        self._outcome = outcome
        self._working = loop.create_task(self._finish(work))
        try:
            found = await outcome
        finally:
            self._outcome = None
        if isinstance(found, RequestError):
            raise found
        return found

    async def _finish(self, work: Coroutine[Any, Any, bytes]) -> None:
        try:
            found = await work
        except RequestError as error:
            # It refers to the frames that it came through, and so to the request.
            error.__context__ = error.__traceback__ = None
            self.end(error)
        except Exception as error:  # noqa: BLE001 - raised where the call is answered
            if self._outcome is not None and not self._outcome.done():
                self._outcome.set_exception(error)
        else:
            self.end(found)

    def end(self, found: bytes | RequestError) -> None:
        """Answers the call, if nothing has yet."""
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_result(found)


class Calls:
    def __init__(self, settings: Settings, access: Access, trust: Callable[[], str]) -> None:
        self._settings = settings
        self.silent_call_s = settings.silent_call_s
        self.stream_idle_s = settings.stream_idle_s
        self._access = access
        self._trust = trust
        self._ipv4_only = settings.host == ALL_OF_IPV4
        self._trim: asyncio.TimerHandle | None = None
        maximum = max(MAX_SLOW_BYTES, settings.max_body_bytes), settings.max_body_bytes, _SLOW_EACH
        self._places = Places(ReadLimits(min(_PLACES, settings.queue_length), *maximum, settings.silent_call_s))
        self._health = Places(ReadLimits(_HEALTH_PLACES, *maximum, settings.silent_call_s))

    async def answered(
        self,
        context: Context,
        role: Role,
        work: Callable[[Call], Coroutine[Any, Any, bytes]],
    ) -> bytes:
        """Returns the result of the work; checks the token first, before anything of the request is read."""
        call = Call(context)
        try:
            self.admit(context, call.peer, role)
            return await call.result(work(call))
        except RequestError as error:
            code, sentence = code_of(error), self.message_for_client(error, call.peer)
        except asyncio.CancelledError:
            if call.reader is not None:
                call.reader.stop_waiting()
            raise
        # Behind the handler: the library keeps the exception that this raises, and with its context the request.
        return await context.abort(code, sentence)

    def message_for_client(self, error: RequestError, peer: str) -> str:
        """Returns an error as the client of this connection reads it."""
        return for_client(error.sentence, self._settings, client_of(peer))

    def admit(self, context: Context, peer: str, role: Role) -> None:
        """Begins a call: its answer names the trust; raises RequestError as `check` does."""
        context.set_trailing_metadata((("edgeopt-trust", self._trust()),))
        self.check(context, peer, role)

    def check(self, context: Context, peer: str, role: Role) -> None:
        """Raises RequestError where the client may not ask for this."""
        if self._ipv4_only and peer.startswith("ipv6:"):
            # The library takes this host for all addresses, where HTTP listens on those of IPv4 alone.
            raise RequestError(403, "The agent listens on IPv4 only; use --host :: for IPv6.")
        sent = [value.encode() for name, value in context.invocation_metadata() or () if name == "authorization"]
        refused = self._access.refusal_of(sent, client_of(peer), role)
        if refused is not None:
            raise RequestError(refused.status, f"{refused.message} {refused.hint}".rstrip())

    async def read(self, call: Call, *, small: bool = False, health: bool = False) -> bytes:
        """Reads the one message of a call; raises RequestError if it does not come in time."""
        settings = self._settings
        limit_s = min(settings.silent_call_s, settings.body_timeout_s) if small else settings.body_timeout_s
        places = self._health if health else self._places
        reader = call.reader = places.enter(call.peer, limit_s, call.end)
        try:
            if reader.turn is not None:
                await reader.turn
                if reader.error is not None:
                    raise reader.error
            message = await call.context.read()
        finally:
            call.reader = None
            places.leave(reader)
        if not isinstance(message, bytes):
            raise RequestError(400, "The call contains no request.")
        if reader.error is not None:
            raise reader.error
        if len(message) > WORTH_GIVING_BACK_BYTES and self._trim is None:
            self._trim = asyncio.get_running_loop().call_later(GIVE_BACK_AFTER_S, self._return_to_system)
        return message

    def _return_to_system(self) -> None:
        """Messages come in pieces so small that the C library keeps their memory."""
        self._trim = None
        # Tens of milliseconds, for which other calls would wait.
        asyncio.get_running_loop().run_in_executor(None, give_back)


def parsed(name: str, message: bytes) -> Message:
    """Parses a small message; raises RequestError if it is not one."""
    if len(message) > _MAX_SMALL_BYTES:
        raise RequestError(400, f"A {name} has at most {_MAX_SMALL_BYTES} bytes.")
    request = message_class(name)()
    try:
        request.ParseFromString(message)
    except DecodeError:
        raise RequestError(400, f"The request is not a {name}.") from None
    return request


def code_of(error: RequestError) -> grpc.StatusCode:
    if isinstance(error, QueueFullError):
        return grpc.StatusCode.RESOURCE_EXHAUSTED
    return _CODES.get(error.status, grpc.StatusCode.INTERNAL)


async def outliving(work: Awaitable[Found]) -> Found:
    """Waits for work that goes on when the client is gone.

    gRPC's library must not lose a read in the middle, and a request that hangs its worker has to be noticed by its
    own time limit, even where the client's was shorter.
    """
    task = asyncio.ensure_future(work)
    task.add_done_callback(_look_at)
    try:
        return await asyncio.shield(task)
    finally:
        # Its error refers to this frame and those of the callers: with the task, messages would stay in memory.
        del task


def _look_at(task: asyncio.Task[Found]) -> None:
    """Fetches the exception of a task that nobody waits for, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
