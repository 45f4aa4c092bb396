"""The methods of `inference.GRPCInferenceService`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import grpc

from edgeopt_agent.grpc.calls import Calls, Context, code_of, outliving, parsed
from edgeopt_agent.telemetry.tracing import RequestSpan
from edgeopt_agent.v2 import documents
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.v2.messages import message_class
from edgeopt_agent.v2.wire import Target, bytes_field, read_target
from edgeopt_agent.workers.frames import PROTOBUF
from edgeopt_agent.workers.models import Models
from edgeopt_agent.workers.router import QueueFullError

SERVICE = "inference.GRPCInferenceService"
MOST_STREAMS = 16
_INFER_RESPONSE = 2
Document = Mapping[str, Any]


def handlers(models: Models, calls: Calls, stopping: asyncio.Event) -> tuple[grpc.GenericRpcHandler, ...]:
    """All methods, and what answers those that there are not."""
    methods: dict[str, grpc.RpcMethodHandler] = {
        name: _small_method(name, answer, calls) for name, answer in _small_answers(models).items()
    }
    methods["ModelInfer"] = grpc.stream_unary_rpc_method_handler(_infer_method(models, calls))
    methods["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(_stream_method(models, calls, stopping))
    return grpc.method_handlers_generic_handler(SERVICE, methods), _Unknown(calls)


def _small_answers(models: Models) -> Mapping[str, Callable[[Any], Document | Awaitable[Document]]]:
    """The fields of each method's response, from its request."""

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
        async def work() -> bytes:
            found = answer(parsed(f"{name}Request", await calls.read(context)))
            document = await found if isinstance(found, Awaitable) else found
            response: bytes = message_class(f"{name}Response")(**document).SerializeToString()
            return response

        return await calls.answered(context, "view", work)

    # Every method reads its request itself: the library would do so before the token is checked. The iterator that
    # it is given stays unused: that one holds the last message until the garbage collector comes.
    return grpc.stream_unary_rpc_method_handler(method)


def _infer_method(models: Models, calls: Calls) -> Callable[[object, Context], Awaitable[bytes]]:
    async def method(_requests: object, context: Context) -> bytes:
        async def work() -> bytes:
            with calls.traced(f"{SERVICE}/ModelInfer", context) as span:
                message = await calls.read(context)
                return await _infer(models, read_target(message), message, span)

        return await calls.answered(context, "infer", work)

    return method


async def _infer(models: Models, target: Target, message: bytes, span: RequestSpan | None) -> bytes:
    """The response as the worker wrote it; the agent reads neither of the two messages."""
    if span is not None:
        span.asked(target.model_name, target.model_version, len(message))
    asked = models.of(target.model_name).infer(
        target.model_name, target.model_version or None, message, encoding=PROTOBUF
    )
    answer = await outliving(asked)
    if span is not None:
        span.answered(answer)
    if answer.status != 200:
        raise RequestError(answer.status, answer.reason())
    return bytes(answer.body)


def _stream_method(
    models: Models, calls: Calls, stopping: asyncio.Event
) -> Callable[[object, Context], AsyncIterator[bytes]]:
    streams = 0

    async def next_message(context: Context) -> bytes | None:
        """None at the end of the stream; raises RequestError where the agent stops before."""
        reading = asyncio.ensure_future(outliving(context.read()))
        stop = asyncio.ensure_future(stopping.wait())
        try:
            await asyncio.wait({reading, stop}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                message = reading.result()
                return message if isinstance(message, bytes) else None
        finally:
            stop.cancel()
            reading.cancel()
            del reading  # see `outliving`
        raise RequestError(503, "The agent is stopping.")

    async def answers(context: Context) -> AsyncIterator[bytes]:
        while (message := await next_message(context)) is not None:
            calls.check(context, "infer")  # the token may have been removed since the last one
            target = Target("", "", "")
            try:
                with calls.traced(f"{SERVICE}/ModelStreamInfer", context) as span:
                    target = read_target(message)
                    response = await _infer(models, target, message, span)
            except RequestError as error:
                failed = {"error_message": error.sentence, "infer_response": {"id": target.id}}
                yield message_class("ModelStreamInferResponse")(**failed).SerializeToString()
            else:
                yield bytes_field(_INFER_RESPONSE, len(response)) + response

    async def method(_requests: object, context: Context) -> AsyncIterator[bytes]:
        nonlocal streams
        streams += 1
        try:
            calls.admit(context, "infer")
            if streams > MOST_STREAMS:
                raise QueueFullError(503, f"{MOST_STREAMS} streams are open already; try again later.")
            async for answer in answers(context):
                yield answer
            return
        except RequestError as error:
            code, sentence = code_of(error), error.sentence
        finally:
            streams -= 1
        await context.abort(code, sentence)

    return method


class _Unknown(grpc.GenericRpcHandler):  # type: ignore[misc]  # the library has no types
    """Answers what no handler before it takes."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        async def method(_requests: object, context: Context) -> bytes:
            async def work() -> bytes:
                called = details.method[:80]
                raise RequestError(
                    501, f"This agent has no method '{called}'. docs/agent.md lists those of {SERVICE}."
                )

            return await self._calls.answered(context, "view", work)

        return grpc.stream_unary_rpc_method_handler(method)
