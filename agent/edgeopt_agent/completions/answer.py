"""Answers to requests for text, whole and in pieces."""

import time
import uuid

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


class _Writer:
    def __init__(self, prefix: str, model: str) -> None:
        self._head = f"{prefix}-{uuid.uuid4().hex}", int(time.time()), model


class CompletionWriter(_Writer):
    """Answers to one request for the continuation of a text."""

    def whole(self, text: str, generation: Generation) -> Completion:
        return Completion(*self._head, [CompletionChoice(text, _reason(generation))], _usage(generation))

    def first(self) -> None:
        """Returns what a stream begins with: nothing."""

    def piece(self, text: str) -> Completion:
        return Completion(*self._head, [CompletionChoice(text)])

    def last(self, generation: Generation) -> Completion:
        return Completion(*self._head, [CompletionChoice("", _reason(generation))])

    def usage(self, generation: Generation) -> Completion:
        return Completion(*self._head, [], _usage(generation))


class ChatWriter(_Writer):
    """Answers to one request of a chat."""

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


def writer_for(asked: CompletionRequest | ChatRequest) -> CompletionWriter | ChatWriter:
    if isinstance(asked, ChatRequest):
        return ChatWriter("chatcmpl", asked.model)
    return CompletionWriter("cmpl", asked.model)


def _reason(generation: Generation) -> FinishReason:
    return "stop" if generation.ending == "stop" else "length"


def _usage(generation: Generation) -> Usage:
    prompt, tokens = generation.prompt_tokens, generation.tokens
    return Usage(prompt, tokens, prompt + tokens)
