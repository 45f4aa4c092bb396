"""Requests for the text of speech, checked as those for text are."""

from collections.abc import Mapping
from typing import Any, TypeVar

from edgeopt_agent.completions.errors import ParameterError
from edgeopt_agent.completions.multipart import read_form
from edgeopt_agent.completions.records import SPEECH_FORMATS, SpeechRequest, TranscriptionRequest
from edgeopt_agent.completions.request import read_parameters
from edgeopt_agent.workers.frames import Transcribe

UNSUPPORTED_SPEECH: Mapping[str, tuple[bytes, ...]] = {
    "chunking_strategy": (),
    "include": (),
    "keywords": (),
    "known_speaker_names": (),
    "known_speaker_references": (),
    "languages": (),
    "prompt": (b'""',),
    "timestamp_granularities": (),
}
"""Parameters that are not supported, with the values, as JSON, that have no effect."""
_Asked = TypeVar("_Asked", bound=SpeechRequest)


def read_speech(body: bytes, boundary: bytes, kind: type[_Asked]) -> tuple[_Asked, bytes]:
    """Returns a request of this kind and its audio file; raises ParameterError if it cannot be answered."""
    fields = read_form(body, boundary)
    audio = fields.pop("file", None)
    if not audio:
        problem = "is missing" if audio is None else "is empty"
        raise ParameterError(f"The field 'file' {problem}; send a WAV file.", "file", "invalid_value")
    given: dict[str, Any] = {
        name.removesuffix("[]"): value.decode(errors="replace") for name, value in fields.items()
    }
    if (asked := given.get("response_format", SPEECH_FORMATS[0])) not in SPEECH_FORMATS:
        message = f"The response_format '{asked[:40]}' is not supported; take {' or '.join(SPEECH_FORMATS)}."
        raise ParameterError(message, "response_format", "unsupported_parameter")
    return read_parameters(given, kind, UNSUPPORTED_SPEECH, strict=False), audio


def transcribe_message(asked: SpeechRequest) -> Transcribe:
    """Returns the message to the worker that begins the text."""
    if isinstance(asked, TranscriptionRequest):
        return Transcribe("transcribe", asked.language or None, asked.temperature)
    return Transcribe("translate", None, asked.temperature)
