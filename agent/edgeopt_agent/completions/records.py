"""Requests and answers of OpenAI's protocol, as far as the agent speaks it."""

from typing import Annotated, Literal, get_args

import msgspec

FinishReason = Literal["stop", "length"]
_Tokens = Annotated[int, msgspec.Meta(ge=1)]


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool = False


class TextRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of both kinds of requests."""

    model: str
    max_tokens: _Tokens | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    seed: int | None = None
    stop: str | Annotated[list[str], msgspec.Meta(max_length=4)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None


class CompletionRequest(TextRequest, frozen=True, kw_only=True):
    prompt: str | Annotated[list[str], msgspec.Meta(min_length=1, max_length=1)]


class TextPart(msgspec.Struct, frozen=True):
    type: Literal["text"]
    text: str


class ChatMessage(msgspec.Struct, frozen=True):
    role: str
    content: str | list[TextPart]


class ChatRequest(TextRequest, frozen=True, kw_only=True):
    messages: Annotated[list[ChatMessage], msgspec.Meta(min_length=1)]
    max_completion_tokens: _Tokens | None = None


SpeechFormat = Literal["json", "text"]
SPEECH_FORMATS: tuple[SpeechFormat, ...] = get_args(SpeechFormat)


class SpeechRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of both kinds of requests with audio, beside the file."""

    model: str
    response_format: SpeechFormat = "json"
    temperature: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0


class TranscriptionRequest(SpeechRequest, frozen=True, kw_only=True):
    language: str | None = None
    """Code of the language of the speech; detected by default."""
    stream: bool = False


class TranslationRequest(SpeechRequest, frozen=True, kw_only=True):
    """A request for the text of speech in English."""


class SpeechUsage(msgspec.Struct, frozen=True):
    seconds: float
    type: Literal["duration"] = "duration"


class Transcript(msgspec.Struct, frozen=True):
    text: str
    usage: SpeechUsage


class TranscriptDelta(msgspec.Struct, frozen=True):
    """A piece of a text that is streamed."""

    delta: str
    type: Literal["transcript.text.delta"] = "transcript.text.delta"


class TranscriptDone(msgspec.Struct, frozen=True):
    """The whole text, as the last event of a stream."""

    text: str
    type: Literal["transcript.text.done"] = "transcript.text.done"


class Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class CompletionChoice(msgspec.Struct, frozen=True):
    text: str
    finish_reason: FinishReason | None = None
    index: int = 0
    logprobs: None = None


class Completion(msgspec.Struct, frozen=True):
    """An answer, or a piece of one that is streamed."""

    id: str
    created: int
    """Seconds since 1970."""
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None
    object: Literal["text_completion"] = "text_completion"


class AnswerMessage(msgspec.Struct, frozen=True):
    content: str
    role: Literal["assistant"] = "assistant"
    refusal: None = None


class ChatChoice(msgspec.Struct, frozen=True):
    message: AnswerMessage
    finish_reason: FinishReason
    index: int = 0
    logprobs: None = None


class ChatCompletion(msgspec.Struct, frozen=True):
    id: str
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    object: Literal["chat.completion"] = "chat.completion"


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    role: Literal["", "assistant"] = ""
    content: str | None = None


class ChunkChoice(msgspec.Struct, frozen=True):
    delta: Delta
    finish_reason: FinishReason | None = None
    index: int = 0
    logprobs: None = None


class ChatChunk(msgspec.Struct, frozen=True):
    """A piece of an answer that is streamed."""

    id: str
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Usage | None = None
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"


class LanguageModel(msgspec.Struct, frozen=True):
    id: str
    created: int
    """Time at which its worker was ready, in seconds since 1970."""
    object: Literal["model"] = "model"
    owned_by: str = "edgeopt"


class LanguageModels(msgspec.Struct, frozen=True):
    data: list[LanguageModel]
    object: Literal["list"] = "list"


class CompletionError(msgspec.Struct, frozen=True):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class CompletionErrorDocument(msgspec.Struct, frozen=True):
    """Every error under `/v1`."""

    error: CompletionError


def error_document(
    status: int, message: str, code: str | None = None, param: str | None = None
) -> CompletionErrorDocument:
    """Returns an error in OpenAI's form, with the type that its status has there."""
    kind = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}.get(status)
    kind = kind or ("server_error" if status >= 500 else "invalid_request_error")
    return CompletionErrorDocument(CompletionError(message, kind, param, code))
