"""One generation for the command line: a prompt, pieces of text as events, and how fast they came."""

import time

import msgspec

from edgeopt.backends.base import fallback
from edgeopt.bundle.request import RunRequest
from edgeopt.bundle.runtime.session import load
from edgeopt.events import Emit, Log, Update

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


def run_prompt(request: RunRequest, prompt: str, emit: Emit) -> PromptRun:
    """Generates text, and emits each piece as soon as it is final."""
    system = [{"role": "system", "content": request.system}] if request.system is not None else []
    messages = [*system, {"role": "user", "content": prompt}]
    with load(request.subject, strict=request.strict, custom_ops=request.custom_ops) as session:
        warning = fallback(session.placement)
        if warning is not None:
            emit(Log("warning", f"{warning}."))
        generation = session.generate(
            messages if request.chat else prompt,
            max_tokens=request.max_tokens,
            stop=request.stop,
            temperature=request.temperature,
            top_k=request.top_k,
            top_p=request.top_p,
            seed=request.seed,
        )
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
