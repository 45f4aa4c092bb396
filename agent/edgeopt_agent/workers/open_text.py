"""The text that a worker generates: one generation at a time, one step for each message of the agent."""

import msgspec

from edgeopt.bundle.runtime.generation import PromptTooLongError
from edgeopt.bundle.runtime.session import Session
from edgeopt.bundle.runtime.text_generation import TextGeneration
from edgeopt.bundle.runtime.transcription import Transcription
from edgeopt.decoding import thread_safe
from edgeopt.errors import DataError, ModelError, UsageError
from edgeopt_agent.workers.frames import (
    Begin,
    EndGeneration,
    FromWorker,
    Generate,
    GenerationBegun,
    NextPiece,
    Piece,
    PromptRefused,
    Transcribe,
)

MAX_STEP_TOKENS = 512
"""Tokens of a prompt that are computed before the worker answers other requests."""
_UNLIMITED = 1 << 40
_PromptText = str | list[dict[str, str]]


class OpenText:
    """The open generation of a session; another one replaces it."""

    def __init__(self, session: Session) -> None:
        """Loads the tokenizer and the encoder; raises EdgeoptError if there is none that can be used."""
        cache = session.deployment.cache if session.deployment is not None else None
        self.is_speech = cache is not None and bool(cache.given)
        """Whether the model transcribes speech; otherwise it continues prompts."""
        if self.is_speech:
            _ = session.speech_model
        self.takes_messages = not self.is_speech and session.tokenizer.takes_messages
        """Whether a prompt may be a conversation."""
        self._session = session
        self._open: TextGeneration | Transcription | None = None

    def answer(self, message: Begin | NextPiece | EndGeneration, text: memoryview) -> FromWorker:
        """Returns the answer to one message; after an error there is no open generation."""
        generation, self._open = self._open, None
        if isinstance(message, Generate | Transcribe):
            return self._begin(message, text)
        if generation is None or isinstance(message, EndGeneration):
            return Piece("", 0, "closed")
        piece = generation.step()
        if not generation.ending:
            self._open = generation
        return Piece(piece, len(generation.tokens), generation.ending)

    def _begin(self, message: Begin, text: memoryview) -> FromWorker:
        try:
            if isinstance(message, Transcribe):
                self._open = speech = self._session.transcribe(
                    text, language=message.language, task=message.task, temperature=message.temperature
                )
                return GenerationBegun(audio_s=speech.audio_s)
            self._open = self._session.generate(
                msgspec.json.decode(text, type=thread_safe(_PromptText)),
                max_tokens=message.max_tokens or _UNLIMITED,
                stop=message.stop,
                temperature=message.temperature,
                top_p=message.top_p,
                seed=message.seed,
                max_step_tokens=MAX_STEP_TOKENS,
            )
        except (DataError, ModelError, UsageError) as error:
            sentence = f"{error.message} {error.hint}".rstrip()
            return PromptRefused(sentence, isinstance(error, PromptTooLongError))
        return GenerationBegun(len(self._open.prompt_tokens))
