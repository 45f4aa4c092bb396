"""Requests for text, checked: what would change the result and is not supported is refused by name."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.nearest import nearest
from edgeopt_agent.completions.errors import ParameterError, value_error
from edgeopt_agent.completions.records import ChatRequest, CompletionRequest, SpeechRequest, TextRequest
from edgeopt_agent.workers.frames import Generate

_DEFAULT_TOKENS = 16
"""OpenAI's default of `max_tokens` for completions; chats go on to the end of the context."""
_SEEDS = 1 << 64
IGNORED = frozenset({
    "metadata", "parallel_tool_calls", "prediction", "prompt_cache_key", "prompt_cache_retention",
    "safety_identifier", "service_tier", "store", "user",
})  # fmt: skip
"""Parameters that do not change the text."""
UNSUPPORTED: Mapping[str, tuple[bytes, ...]] = {
    "audio": (),
    "best_of": (b"1",),
    "echo": (b"false",),
    "frequency_penalty": (b"0", b"0.0"),
    "function_call": (b'"none"',),
    "functions": (b"[]",),
    "logit_bias": (b"{}",),
    "logprobs": (b"false",),
    "modalities": (b'["text"]',),
    "n": (b"1",),
    "presence_penalty": (b"0", b"0.0"),
    "reasoning_effort": (),
    "response_format": (b'{"type":"text"}',),
    "suffix": (b'""',),
    "tool_choice": (b'"none"', b'"auto"'),
    "tools": (b"[]",),
    "top_logprobs": (b"0",),
    "verbosity": (),
    "web_search_options": (),
}
"""Parameters that are not supported, with the values, as JSON, that have no effect; null never has one."""
_Asked = TypeVar("_Asked", bound=TextRequest | SpeechRequest)


def read_request(body: bytes, kind: type[_Asked]) -> _Asked:
    """Returns a request of this kind; raises ParameterError if it cannot be answered."""
    try:
        given = msgspec.json.decode(body, type=thread_safe(dict[str, Any]))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParameterError(f"The body is not a JSON object: {error}.", None, "invalid_json") from None
    return read_parameters(given, kind, UNSUPPORTED)


def read_parameters(
    given: dict[str, Any], kind: type[_Asked], unsupported: Mapping[str, tuple[bytes, ...]], strict: bool = True
) -> _Asked:
    """Returns a request with these parameters, which a form, without `strict`, has as texts."""
    known = {field.name for field in msgspec.structs.fields(kind)}
    for name, value in given.items():
        if name in known or name in IGNORED:
            continue
        if name not in unsupported:
            hint = nearest(name, sorted(known))
            raise ParameterError(f"There is no parameter '{name[:40]}'. {hint}", name[:40], "unknown_parameter")
        if value is not None and msgspec.json.encode(value) not in unsupported[name]:
            message = f"The parameter '{name}' is not supported with this value. Leave it out."
            raise ParameterError(message, name, "unsupported_parameter")
    try:
        return msgspec.convert(given, type=thread_safe(kind), strict=strict)
    except msgspec.ValidationError as error:
        raise value_error(error) from None


def prompt_of(asked: CompletionRequest | ChatRequest) -> bytes:
    """Returns the text, or the messages of a chat, as JSON."""
    if isinstance(asked, CompletionRequest):
        return msgspec.json.encode(asked.prompt if isinstance(asked.prompt, str) else asked.prompt[0])
    return msgspec.json.encode([
        {
            "role": each.role,
            "content": each.content
            if isinstance(each.content, str)
            else "".join(part.text for part in each.content),
        }
        for each in asked.messages
    ])  # fmt: skip


def generate_message(asked: CompletionRequest | ChatRequest) -> Generate:
    """Returns the message to the worker that begins the text."""
    if isinstance(asked, ChatRequest):
        max_tokens = asked.max_completion_tokens or asked.max_tokens
    else:
        max_tokens = asked.max_tokens or _DEFAULT_TOKENS
    stop = [asked.stop] if isinstance(asked.stop, str) else asked.stop or []
    return Generate(
        max_tokens=max_tokens,
        temperature=asked.temperature,
        top_p=asked.top_p,
        seed=None if asked.seed is None else asked.seed % _SEEDS,
        stop=tuple(stop),
    )
