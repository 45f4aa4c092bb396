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
    Usage,
)
from edgeopt_agent.workers.generations import Generation


class AnswerWriter(Protocol):
    """The form of the answers to one kind of requests."""

    def whole(self, text: str, generation: Generation) -> Completion | ChatCompletion: ...

    def first(self) -> Completion | ChatChunk | None:
        """Returns what a stream begins with, if anything."""

    def piece(self, text: str) -> Completion | ChatChunk: ...

    def last(self, generation: Generation) -> Completion | ChatChunk: ...

    def usage(self, generation: Generation) -> Completion | ChatChunk: ...


def writer_for(asked: CompletionRequest | ChatRequest) -> AnswerWriter:
    created = int(time.time())
    if isinstance(asked, ChatRequest):
        return _Chat(f"chatcmpl-{uuid.uuid4().hex}", created, asked.model)
    return _Completion(f"cmpl-{uuid.uuid4().hex}", created, asked.model)


class _Completion:
    def __init__(self, identifier: str, created: int, model: str) -> None:
        self._head = identifier, created, model

    def whole(self, text: str, generation: Generation) -> Completion:
        return Completion(*self._head, [CompletionChoice(text, _reason(generation))], _usage(generation))

    def first(self) -> None:
        return None

    def piece(self, text: str) -> Completion:
        return Completion(*self._head, [CompletionChoice(text)])

    def last(self, generation: Generation) -> Completion:
        return Completion(*self._head, [CompletionChoice("", _reason(generation))])

    def usage(self, generation: Generation) -> Completion:
        return Completion(*self._head, [], _usage(generation))


class _Chat:
    def __init__(self, identifier: str, created: int, model: str) -> None:
        self._head = identifier, created, model

    def whole(self, text: str, generation: Generation) -> ChatCompletion:
        choice = ChatChoice(AnswerMessage(text), _reason(generation))
        return ChatCompletion(*self._head, [choice], _usage(generation))

    def first(self) -> ChatChunk:
        return ChatChunk(*self._head, [ChunkChoice(Delta("assistant", ""))])

    def piece(self, text: str) -> ChatChunk:
        return ChatChunk(*self._head, [ChunkChoice(Delta(content=text))])

    def last(self, generation: Generation) -> ChatChunk:
        return ChatChunk(*self._head, [ChunkChoice(Delta(), _reason(generation))])

    def usage(self, generation: Generation) -> ChatChunk:
        return ChatChunk(*self._head, [], _usage(generation))


def _reason(generation: Generation) -> FinishReason:
    return "stop" if generation.ending == "stop" else "length"


def _usage(generation: Generation) -> Usage:
    prompt, tokens = generation.prompt_tokens, generation.tokens
    return Usage(prompt, tokens, prompt + tokens)
