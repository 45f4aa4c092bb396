"""Answers to requests for text, whole and in pieces."""

import time
import uuid
from typing import Protocol

from edgeopt_agent.completions.records import (
    AnswerMessage,
    ChatChoice,
    ChatChunk,
    ChatCompletion,
    ChatRequest,
    ChunkChoice,
    Completion,
    CompletionChoice,
    CompletionRequest,
    Delta,
    FinishReason,
    SpeechUsage,
    TextRequest,
    Transcript,
    TranscriptDelta,
    TranscriptDone,
    Usage,
)
from edgeopt_agent.workers.generations import Generation


class Writer(Protocol):
    """Answers to one request: one document, or the events of a stream."""

    done: bytes
    """Data of the event that ends a stream; empty if there is none."""

    def whole(self, text: str, generation: Generation) -> object: ...

    def first(self) -> object | None:
        """Returns what a stream begins with; None for nothing."""

    def piece(self, text: str) -> object: ...

    def last(self, generation: Generation) -> list[object]:
        """Returns the events after the last piece."""
        ...


class _TextWriter:
    done = b"[DONE]"

    def __init__(self, prefix: str, asked: TextRequest) -> None:
        self._head = f"{prefix}-{uuid.uuid4().hex}", int(time.time()), asked.model
        self._with_usage = asked.stream_options is not None and asked.stream_options.include_usage


class CompletionWriter(_TextWriter):
    """Answers to one request for the continuation of a text."""

    def whole(self, text: str, generation: Generation) -> Completion:
        return Completion(*self._head, [CompletionChoice(text, _reason(generation))], _usage(generation))

    def first(self) -> None:
        """Returns None: a stream begins with the text."""

    def piece(self, text: str) -> Completion:
        return Completion(*self._head, [CompletionChoice(text)])

    def last(self, generation: Generation) -> list[object]:
        end = Completion(*self._head, [CompletionChoice("", _reason(generation))])
        return [end, Completion(*self._head, [], _usage(generation))] if self._with_usage else [end]


class ChatWriter(_TextWriter):
    """Answers to one request of a chat."""

    def whole(self, text: str, generation: Generation) -> ChatCompletion:
        choice = ChatChoice(AnswerMessage(text), _reason(generation))
        return ChatCompletion(*self._head, [choice], _usage(generation))

    def first(self) -> ChatChunk:
        return ChatChunk(*self._head, [ChunkChoice(Delta("assistant", ""))])

    def piece(self, text: str) -> ChatChunk:
        return ChatChunk(*self._head, [ChunkChoice(Delta(content=text))])

    def last(self, generation: Generation) -> list[object]:
        end = ChatChunk(*self._head, [ChunkChoice(Delta(), _reason(generation))])
        return [end, ChatChunk(*self._head, [], _usage(generation))] if self._with_usage else [end]


class SpeechWriter:
    """Answers to one request with audio."""

    done = b""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def whole(self, text: str, generation: Generation) -> Transcript:
        return Transcript(text, SpeechUsage(generation.audio_s))

    def first(self) -> None:
        """Returns None: a stream begins with the text."""

    def piece(self, text: str) -> TranscriptDelta:
        self._pieces.append(text)
        return TranscriptDelta(text)

    def last(self, _generation: Generation) -> list[object]:
        return [TranscriptDone("".join(self._pieces))]


def writer_for(asked: CompletionRequest | ChatRequest) -> Writer:
    if isinstance(asked, ChatRequest):
        return ChatWriter("chatcmpl", asked)
    return CompletionWriter("cmpl", asked)


def _reason(generation: Generation) -> FinishReason:
    return "stop" if generation.ending == "stop" else "length"


def _usage(generation: Generation) -> Usage:
    prompt, tokens = generation.prompt_tokens, generation.tokens
    return Usage(prompt, tokens, prompt + tokens)
