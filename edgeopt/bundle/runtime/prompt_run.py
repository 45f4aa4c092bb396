"""One generation for the command line: a prompt or speech, pieces of text as events, and how fast they came."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from edgeopt.backends.base import fallback
from edgeopt.bundle.request import RunRequest
from edgeopt.bundle.runtime.session import Session, load
from edgeopt.bundle.runtime.text_generation import TextGeneration
from edgeopt.bundle.runtime.transcription import Transcription
from edgeopt.events import Emit, Log, Update

_MAX_TOKENS = 128
"""Tokens after a prompt, unless the request limits them."""
PIECE = "text"
"""Kind of the updates with pieces of text."""


class PromptRun(msgspec.Struct, frozen=True):
    subject: str
    text: str
    ending: str
    """Reason that the text ends: `stop`, `max_tokens` or `context`."""
    prompt_tokens: int
    tokens: int
    """Generated tokens, without one that ended the text."""
    first_token_ms: float | None = None
    """Time for the prompt and the first token; None if there is none."""
    tokens_per_s: float | None = None
    """Speed after the first token; None for fewer than two tokens."""
    audio_s: float | None = None
    """Seconds of speech; None for a prompt."""
    language: str | None = None
    """Language of the speech; None for a prompt, and for models of English alone."""


def run_prompt(request: RunRequest, prompt: str, emit: Emit) -> PromptRun:
    """Continues a prompt, and emits each piece of text as soon as it is final."""
    system = [{"role": "system", "content": request.system}] if request.system is not None else []
    messages = [*system, {"role": "user", "content": prompt}]
    with _loaded(request, emit) as session:
        generation = session.generate(
            messages if request.chat else prompt,
            max_tokens=request.max_tokens or _MAX_TOKENS,
            stop=request.stop,
            temperature=request.temperature,
            top_k=request.top_k,
            top_p=request.top_p,
            seed=request.seed,
        )
        return _emitted(request, generation, emit)


def run_audio(request: RunRequest, audio: Path, emit: Emit) -> PromptRun:
    """Transcribes speech, and emits each piece of text as soon as it is final."""
    with _loaded(request, emit) as session:
        transcription = session.transcribe(
            audio,
            language=request.language,
            task=request.task,
            max_tokens=request.max_tokens,
            temperature=request.temperature or 0.0,
            seed=request.seed,
        )
        found = _emitted(request, transcription, emit)
    return msgspec.structs.replace(found, audio_s=transcription.audio_s, language=transcription.language)


@contextmanager
def _loaded(request: RunRequest, emit: Emit) -> Iterator[Session]:
    with load(request.subject, strict=request.strict, custom_ops=request.custom_ops) as session:
        warning = fallback(session.placement)
        if warning is not None:
            emit(Log("warning", f"{warning}."))
        yield session


def _emitted(request: RunRequest, generation: TextGeneration | Transcription, emit: Emit) -> PromptRun:
    begin = time.perf_counter()
    for piece in generation:
        emit(Update(PIECE, {"text": piece}))
    elapsed_s = time.perf_counter() - begin
    first_s, count = generation.first_token_s, len(generation.tokens)
    return PromptRun(
        subject=str(request.subject),
        text=generation.text,
        ending=generation.ending,
        prompt_tokens=len(generation.prompt_tokens),
        tokens=count,
        first_token_ms=None if first_s is None else first_s * 1e3,
        tokens_per_s=(count - 1) / (elapsed_s - first_s) if first_s is not None and count > 1 else None,
    )
