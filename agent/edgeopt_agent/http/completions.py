"""OpenAI's protocol under `/v1`: completions, chats, transcriptions and the list of models."""

import asyncio
import time
from collections.abc import Coroutine, Mapping
from typing import NamedTuple

import msgspec

from edgeopt_agent.completions.answer import SpeechWriter, Writer, writer_for
from edgeopt_agent.completions.errors import ParameterError
from edgeopt_agent.completions.multipart import boundary_of
from edgeopt_agent.completions.records import (
    ChatRequest,
    CompletionErrorDocument,
    CompletionRequest,
    LanguageModel,
    LanguageModels,
    TranscriptionRequest,
    TranslationRequest,
    error_document,
)
from edgeopt_agent.completions.request import generate_message, prompt_of, read_request
from edgeopt_agent.completions.speech import read_speech, transcribe_message
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
    respond,
    respond_json,
)
from edgeopt_agent.own_commands import for_client
from edgeopt_agent.settings import MIB, Settings
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.workers.frames import Begin
from edgeopt_agent.workers.generations import Generation, PromptTooLongError
from edgeopt_agent.workers.models import Models
from edgeopt_agent.workers.requests import Request
from edgeopt_agent.workers.router import BusyError, QueueFullError

MAX_REQUEST_BYTES = MIB
MAX_AUDIO_BYTES = 25 * MIB
"""OpenAI's limit."""
_BODIES_ON_THEIR_WAY = 16
_LARGEST_AUDIO_AT_ONCE = 4
_RETRY = (b"retry-after", b"1")
_CLOSE = (b"connection", b"close")
_TEXT = (b"content-type", b"text/plain; charset=utf-8")
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
_SPEECH: Mapping[str, type[TranscriptionRequest | TranslationRequest]] = {
    "/v1/audio/transcriptions": TranscriptionRequest,
    "/v1/audio/translations": TranslationRequest,
}
_POSTED = _KINDS.keys() | _SPEECH.keys()


class _Job(NamedTuple):
    """A request that was read and checked."""

    model: str
    prompt: bytes
    """The prompt as JSON, or an audio file."""
    message: Begin
    writer: Writer
    is_stream: bool
    is_plain: bool = False
    """Whether the answer is the text alone."""
    advice: str = "Ask for fewer tokens"
    """Sentence for a client whose text took too long, without its end."""


def make_completions(models: Models, settings: Settings) -> App:
    """Returns the application that answers everything under `/v1`."""
    text_limit = BodyMemoryLimit(_BODIES_ON_THEIR_WAY * MAX_REQUEST_BYTES)
    audio_limit = BodyMemoryLimit(_LARGEST_AUDIO_AT_ONCE * MAX_AUDIO_BYTES)

    async def answer(path: str, scope: Scope, receive: Receive, send: Send) -> None:
        limit = audio_limit if path in _SPEECH else text_limit
        job = await _read_job(path, scope, receive, settings, limit)
        # Audio is kept until the text has ended.
        kept_bytes = len(job.prompt) if path in _SPEECH else 0
        limit.take(kept_bytes)
        try:
            await _while_connected(receive, _answer(models, settings, job, client_of(scope), send))
        finally:
            limit.give_back(kept_bytes)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"].rstrip("/"), scope["method"]
        allowed = ("POST",) if path in _POSTED else ("GET", "HEAD") if path == _MODELS else ()
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
                await answer(path, scope, receive, send)
        except ClientGoneError:
            return
        except RequestError as error:
            more = [_RETRY] if isinstance(error, BusyError | CrowdedError) else []
            if error.status in _BODY_UNREAD or isinstance(error, CrowdedError):
                more.append(_CLOSE)
            document = _document(error, settings, client_of(scope), path)
            await respond_json(send, error.status, document, *more)

    return serve


async def _read_job(path: str, scope: Scope, receive: Receive, settings: Settings, limit: BodyMemoryLimit) -> _Job:
    if header(scope, b"content-encoding") not in {None, b"identity"}:
        raise RequestError(415, "Requests for text are not compressed.")
    boundary = boundary_of(header(scope, b"content-type"))
    if path in _SPEECH and boundary is None:
        raise RequestError(415, "Send the audio as multipart/form-data, with the fields 'file' and 'model'.")
    max_bytes = min(settings.max_body_bytes, MAX_AUDIO_BYTES if path in _SPEECH else MAX_REQUEST_BYTES)
    limits = msgspec.structs.replace(settings, max_body_bytes=max_bytes)
    body = b"".join(await read_body(scope, receive, limits, limit))
    if path in _SPEECH and boundary is not None:
        spoken, audio = read_speech(body, boundary, _SPEECH[path])
        is_stream = isinstance(spoken, TranscriptionRequest) and spoken.stream
        return _Job(
            *(spoken.model, audio, transcribe_message(spoken), SpeechWriter(), is_stream),
            is_plain=spoken.response_format == "text",
            advice="Send shorter audio",
        )
    asked = read_request(body, _KINDS[path])
    return _Job(asked.model, prompt_of(asked), generate_message(asked), writer_for(asked), bool(asked.stream))


def _list(models: Models) -> LanguageModels:
    start = time.time() - time.monotonic()
    workers = (each for each in models.workers() if each.generates_text)
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


async def _answer(models: Models, settings: Settings, job: _Job, client: str, send: Send) -> None:
    request = Request(job.model, None, [job.prompt], client=client)
    limit_s = settings.generation_timeout_s
    async with Generation(models.of(job.model), request, job.message, settings) as generation:
        if job.is_stream:
            await _stream(generation, limit_s, job, send)
            return
        pieces = []
        try:
            async with asyncio.timeout(limit_s):
                while not generation.ending:
                    pieces.append(await generation.next())
        except TimeoutError:
            raise _late(limit_s, job) from None
    text = "".join(pieces)
    if job.is_plain:
        await respond(send, 200, text.encode(), _TEXT)
    else:
        await respond_json(send, 200, job.writer.whole(text, generation))


async def _stream(generation: Generation, limit_s: float, job: _Job, send: Send) -> None:
    """Sends the pieces as server-sent events; a stream that breaks off ends with an error as its last event."""

    async def event(data: bytes) -> None:
        await send({"type": "http.response.body", "body": b"data: %b\n\n" % data, "more_body": True})

    async def error_event(error: RequestError) -> None:
        await event(msgspec.json.encode(error_document(error.status, error.sentence, _code(error))))

    await send({"type": "http.response.start", "status": 200, "headers": list(_STREAM)})
    writer = job.writer
    try:
        async with asyncio.timeout(limit_s):
            if (first := writer.first()) is not None:
                await event(msgspec.json.encode(first))
            while not generation.ending:
                if text := await generation.next():
                    await event(msgspec.json.encode(writer.piece(text)))
            for each in writer.last(generation):
                await event(msgspec.json.encode(each))
            if writer.done:
                await event(writer.done)
    except TimeoutError:
        await error_event(_late(limit_s, job))
    except RequestError as error:
        await error_event(error)
    except asyncio.CancelledError:
        await error_event(_stops())  # or to nobody, if the client has gone
    finally:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _stops() -> RequestError:
    return RequestError(503, "The agent stops, and the text is not complete.")


def _late(limit_s: float, job: _Job) -> RequestError:
    return RequestError(
        504, f"The text was not complete after {limit_s:g} s. {job.advice}, or raise generation_timeout_s."
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
        return "model_not_found" if path in _POSTED else "not_found"
    return _CODES.get(error.status)
