"""The methods of `inference.GRPCInferenceService`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc

from edgeopt_agent.grpc.calls import Call, Calls, Context, code_of, outliving, parsed
from edgeopt_agent.grpc.places import client_of
from edgeopt_agent.v2 import documents
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.v2.messages import message_class
from edgeopt_agent.v2.wire import Target, bytes_field, read_target
from edgeopt_agent.workers.channel import Body
from edgeopt_agent.workers.frames import PROTOBUF
from edgeopt_agent.workers.models import Models
from edgeopt_agent.workers.requests import Request
from edgeopt_agent.workers.router import QueueFullError

SERVICE = "inference.GRPCInferenceService"
MAX_STREAMS = 16
MAX_STREAMS_EACH = 8
"""Most streams from one address."""
_HEALTH = frozenset({"ServerLive", "ServerReady", "ModelReady"})
_INFER_RESPONSE = 2
Document = Mapping[str, Any]


def handlers(models: Models, calls: Calls, stopping: asyncio.Event) -> tuple[grpc.GenericRpcHandler, ...]:
    """Returns the handler of all methods, and the one that answers unknown methods."""
    methods: dict[str, grpc.RpcMethodHandler] = {
        name: _small_method(name, answer, calls) for name, answer in _small_answers(models).items()
    }
    methods["ModelInfer"] = grpc.stream_unary_rpc_method_handler(_infer_method(models, calls))
    methods["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(_stream_method(models, calls, stopping))
    return grpc.method_handlers_generic_handler(SERVICE, methods), _Unknown(calls)


def _small_answers(models: Models) -> Mapping[str, Callable[[Any], Document | Awaitable[Document]]]:
    """Returns, for each method, the function that makes the fields of its response from its request."""

    async def is_ready(*model: str | None) -> Document:
        # Like Triton: asking whether a missing model is ready is not an error.
        try:
            await models.check_ready(*model)
        except RequestError:
            return {"ready": False}
        return {"ready": True}

    def statistics(request: Any) -> Document:  # noqa: ANN401 - a message
        if request.name:
            return documents.statistics(models.totals_of(request.name, request.version or None))
        return documents.statistics(models.totals())

    def index(request: Any) -> Document:  # noqa: ANN401 - a message
        found = documents.index(models.workers())
        return {"models": [each for each in found if each["state"] == "READY" or not request.ready]}

    return {
        "ServerLive": lambda _: {"live": True},
        "ServerReady": lambda _: is_ready(),
        "ModelReady": lambda request: is_ready(request.name, request.version or None),
        "ServerMetadata": lambda _: documents.server(),
        "ModelMetadata": lambda request: documents.model(models.named(request.name, request.version or None)),
        "ModelConfig": lambda request: documents.config_message(
            models.named(request.name, request.version or None)
        ),
        "ModelStatistics": statistics,
        "RepositoryIndex": index,
    }


def _small_method(
    name: str, answer: Callable[[Any], Document | Awaitable[Document]], calls: Calls
) -> grpc.RpcMethodHandler:
    async def method(_requests: object, context: Context) -> bytes:
        async def work(call: Call) -> bytes:
            message = await calls.read(call, small=True, health=name in _HEALTH)
            found = answer(parsed(f"{name}Request", message))
            document = await found if isinstance(found, Awaitable) else found
            response: bytes = message_class(f"{name}Response")(**document).SerializeToString()
            return response

        return await calls.answered(context, "view", work)

    # Every method reads its request itself: the library would do so before the token is checked. The iterator that
    # it is given stays unused: that one holds the last message until the garbage collector comes.
    return grpc.stream_unary_rpc_method_handler(method)


def _infer_method(models: Models, calls: Calls) -> Callable[[object, Context], Awaitable[bytes]]:
    async def work(call: Call) -> bytes:
        message = await calls.read(call)
        return bytes(await _infer(models, read_target(message), message, client_of(call.peer)))

    async def method(_requests: object, context: Context) -> bytes:
        return await calls.answered(context, "infer", work)

    return method


async def _infer(models: Models, target: Target, message: bytes, client: str) -> Body:
    """The response as the worker wrote it; the agent reads neither of the two messages."""
    name, version = target.model_name, target.model_version or None
    answer = await models.of(name).infer(Request(name, version, (message,), encoding=PROTOBUF, client=client))
    if answer.status != 200:
        raise RequestError(answer.status, answer.reason())
    return answer.body


def _stream_method(
    models: Models, calls: Calls, stopping: asyncio.Event
) -> Callable[[object, Context], AsyncIterator[bytes]]:
    streams: list[_Stream] = []

    async def next_message(context: Context, stream: _Stream) -> bytes | None:
        """Returns the next message, None at the end of the stream; raises RequestError if the agent ends it."""
        stream.idle_since_s = asyncio.get_running_loop().time()
        reading = asyncio.ensure_future(outliving(context.read()))
        stop = asyncio.ensure_future(stopping.wait())
        try:
            waits: set[asyncio.Future[Any]] = {reading, stop, stream.replaced}
            await asyncio.wait(waits, timeout=calls.stream_idle_s, return_when=asyncio.FIRST_COMPLETED)
            stream.idle_since_s = None
            if reading.done():
                message = reading.result()
                return message if isinstance(message, bytes) else None
        finally:
            stop.cancel()
            reading.cancel()
            del reading  # see `outliving`
        raise _ended(stream, calls.stream_idle_s, stopping.is_set())

    async def answers(context: Context, stream: _Stream) -> AsyncIterator[bytes]:
        while (message := await next_message(context, stream)) is not None:
            calls.check(context, context.peer(), "infer")  # the token may have been removed since the last one
            target = Target("", "", "")
            try:
                target = read_target(message)
                response = await outliving(_infer(models, target, message, client_of(context.peer())))
            except RequestError as error:
                failed = {"error_message": error.sentence, "infer_response": {"id": target.id}}
                yield message_class("ModelStreamInferResponse")(**failed).SerializeToString()
            else:
                yield b"".join((bytes_field(_INFER_RESPONSE, len(response)), response))

    async def method(_requests: object, context: Context) -> AsyncIterator[bytes]:
        peer = context.peer()
        stream = _Stream(client_of(peer))
        try:
            calls.admit(context, peer, "infer")
            _admit_stream(stream, streams, calls.silent_call_s)
            async for answer in answers(context, stream):
                yield answer
            return
        except RequestError as error:
            code, sentence = code_of(error), calls.message_for_client(error, peer)
        finally:
            if stream in streams:
                streams.remove(stream)
        await context.abort(code, sentence)

    return method


@dataclass(eq=False, slots=True)
class _Stream:
    address: str
    idle_since_s: float | None = None
    """Time since which the stream waits for a request; None while a request is being answered."""
    replaced: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


def _ended(stream: _Stream, idle_s: float, stopping: bool) -> RequestError:
    if stopping:
        return RequestError(503, "The agent is stopping.")
    if stream.replaced.done():
        return QueueFullError(503, "The stream was idle, and another one needed its place.")
    return RequestError(408, f"No request came within {idle_s:g} s; open another stream.")


def _admit_stream(new: _Stream, streams: list[_Stream], yields_after_s: float) -> None:
    """Adds a stream, instead of the one idle longest if there are too many; raises QueueFullError if none is."""
    own = [each for each in streams if each.address == new.address]
    crowd, maximum = (own, MAX_STREAMS_EACH) if len(own) >= MAX_STREAMS_EACH else (streams, MAX_STREAMS)
    if len(crowd) >= maximum:
        idle_before_s = asyncio.get_running_loop().time() - yields_after_s
        idle = [(each.idle_since_s, each) for each in crowd if each.idle_since_s is not None]
        since_s, loser = min(idle, key=lambda each: each[0], default=(idle_before_s + 1, new))
        if since_s > idle_before_s:
            where = "from this address " if crowd is own else ""
            raise QueueFullError(503, f"{maximum} streams {where}are open already; try again later.")
        loser.replaced.set_result(None)
        streams.remove(loser)
    streams.append(new)


class _Unknown(grpc.GenericRpcHandler):  # type: ignore[misc]  # the library has no types
    """Answers what no handler before it takes."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        async def method(_requests: object, context: Context) -> bytes:
            async def work(_call: Call) -> bytes:
                called = details.method[:80]
                raise RequestError(
                    501, f"This agent has no method '{called}'. docs/agent.md lists those of {SERVICE}."
                )

            return await self._calls.answered(context, "view", work)

        return grpc.stream_unary_rpc_method_handler(method)
