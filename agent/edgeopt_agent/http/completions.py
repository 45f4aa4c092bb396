"""OpenAI's protocol for language models under `/v1`: completions, chats and the list of models."""

import asyncio
import time
from collections.abc import Coroutine, Mapping

import msgspec

from edgeopt_agent.completions.answer import writer_for
from edgeopt_agent.completions.records import (
    ChatRequest,
    CompletionErrorDocument,
    CompletionRequest,
    LanguageModel,
    LanguageModels,
    error_document,
)
from edgeopt_agent.completions.request import ParameterError, generate_message, prompt_of, read_request
from edgeopt_agent.http.plain import (
    App,
    BodyMemoryLimit,
    ClientGoneError,
    CrowdedError,
    Receive,
    Scope,
    Send,
    client_of,
    header,
    read_body,
    respond_json,
)
from edgeopt_agent.own_commands import for_client
from edgeopt_agent.settings import MIB, Settings
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.workers.generations import Generation, PromptTooLongError
from edgeopt_agent.workers.models import Models
from edgeopt_agent.workers.requests import Request
from edgeopt_agent.workers.router import BusyError, QueueFullError

MAX_REQUEST_BYTES = MIB
_BODIES_ON_THEIR_WAY = 16
_RETRY = (b"retry-after", b"1")
_CLOSE = (b"connection", b"close")
_STREAM = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
)
_BODY_UNREAD = frozenset({408, 413, 415})
_CODES = {408: "body_timeout", 413: "body_too_large", 503: "unavailable", 504: "timeout", 507: "out_of_memory"}
_MODELS = "/v1/models"
_KINDS: Mapping[str, type[CompletionRequest | ChatRequest]] = {
    "/v1/completions": CompletionRequest,
    "/v1/chat/completions": ChatRequest,
}


def make_completions(models: Models, settings: Settings) -> App:
    """Returns the application that answers everything under `/v1`."""
    memory_limit = BodyMemoryLimit(_BODIES_ON_THEIR_WAY * MAX_REQUEST_BYTES)
    limits = msgspec.structs.replace(settings, max_body_bytes=min(settings.max_body_bytes, MAX_REQUEST_BYTES))

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"].rstrip("/"), scope["method"]
        allowed = ("POST",) if path in _KINDS else ("GET", "HEAD") if path == _MODELS else ()
        try:
            if not allowed:
                raise RequestError(404, f"There is nothing at '{path[:80]}'. docs/agent.md lists the routes.")
            if method not in allowed:
                message = f"'{path}' takes {' or '.join(allowed)}."
                await respond_json(
                    send, 405, error_document(405, message), (b"allow", ", ".join(allowed).encode())
                )
            elif path == _MODELS:
                await respond_json(send, 200, _list(models))
            else:
                if header(scope, b"content-encoding") not in {None, b"identity"}:
                    raise RequestError(415, "Requests for text are not compressed.")
                body = b"".join(await read_body(scope, receive, limits, memory_limit))
                asked = read_request(body, _KINDS[path])
                await _while_connected(receive, _answer(models, settings, asked, client_of(scope), send))
        except ClientGoneError:
            return
        except RequestError as error:
            more = [_RETRY] if isinstance(error, BusyError | CrowdedError) else []
            if error.status in _BODY_UNREAD or isinstance(error, CrowdedError):
                more.append(_CLOSE)
            document = _document(error, settings, client_of(scope), path)
            await respond_json(send, error.status, document, *more)

    return serve


def _list(models: Models) -> LanguageModels:
    start = time.time() - time.monotonic()
    workers = (each for each in models.workers() if not each.why_no_text)
    return LanguageModels([LanguageModel(each.name, int(start + each.loaded_s)) for each in workers])


async def _while_connected(receive: Receive, answer: Coroutine[None, None, None]) -> None:
    """Runs until the end, or until the client has gone; raises RequestError if the agent stops before."""
    answering, gone = asyncio.ensure_future(answer), asyncio.ensure_future(_disconnect(receive))
    try:
        await asyncio.wait((answering, gone), return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            answering.result()
    except asyncio.CancelledError:
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
        if answering.cancelled():  # no stream, which would have ended with this error
            raise _stops() from None
    finally:
        for each in (answering, gone):
            each.cancel()
        await asyncio.gather(answering, gone, return_exceptions=True)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(
    models: Models, settings: Settings, asked: CompletionRequest | ChatRequest, client: str, send: Send
) -> None:
    request = Request(asked.model, None, [prompt_of(asked)], client=client)
    limit_s = settings.generation_timeout_s
    generation = Generation(models.of(asked.model), request, generate_message(asked), settings)
    async with generation:
        if asked.stream:
            await _stream(generation, limit_s, asked, send)
            return
        pieces = []
        try:
            async with asyncio.timeout(limit_s):
                while not generation.ending:
                    pieces.append(await generation.next())
        except TimeoutError:
            raise _late(limit_s) from None
    await respond_json(send, 200, writer_for(asked).whole("".join(pieces), generation))


async def _stream(
    generation: Generation, limit_s: float, asked: CompletionRequest | ChatRequest, send: Send
) -> None:
    """Sends the pieces as server-sent events; a stream that breaks off ends with an error as its last event."""

    async def event(data: bytes) -> None:
        await send({"type": "http.response.body", "body": b"data: %b\n\n" % data, "more_body": True})

    async def error_event(error: RequestError) -> None:
        await event(msgspec.json.encode(error_document(error.status, error.sentence, _code(error))))

    await send({"type": "http.response.start", "status": 200, "headers": list(_STREAM)})
    writer = writer_for(asked)
    try:
        async with asyncio.timeout(limit_s):
            if (first := writer.first()) is not None:
                await event(msgspec.json.encode(first))
            while not generation.ending:
                if text := await generation.next():
                    await event(msgspec.json.encode(writer.piece(text)))
            await event(msgspec.json.encode(writer.last(generation)))
            if asked.stream_options is not None and asked.stream_options.include_usage:
                await event(msgspec.json.encode(writer.usage(generation)))
            await event(b"[DONE]")
    except TimeoutError:
        await error_event(_late(limit_s))
    except RequestError as error:
        await error_event(error)
    except asyncio.CancelledError:
        await error_event(_stops())  # or to nobody, if the client has gone
    finally:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _stops() -> RequestError:
    return RequestError(503, "The agent stops, and the text is not complete.")


def _late(limit_s: float) -> RequestError:
    return RequestError(
        504, f"The text was not complete after {limit_s:g} s. Ask for fewer tokens, or raise generation_timeout_s."
    )


def _document(error: RequestError, settings: Settings, client: str, path: str) -> CompletionErrorDocument:
    param = error.param if isinstance(error, ParameterError) else None
    if isinstance(error, PromptTooLongError):
        param = "messages" if _KINDS[path] is ChatRequest else "prompt"
    sentence = for_client(error.sentence, settings, client)
    return error_document(error.status, sentence, _code(error, path), param)


def _code(error: RequestError, path: str = "") -> str | None:
    if isinstance(error, ParameterError):
        return error.code
    if isinstance(error, PromptTooLongError):
        return "context_length_exceeded"
    if isinstance(error, QueueFullError):
        return "queue_full"
    if error.status == 404:
        return "model_not_found" if path in _KINDS else "not_found"
    return _CODES.get(error.status)
