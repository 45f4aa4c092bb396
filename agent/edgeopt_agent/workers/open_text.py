"""The text that a worker generates: one generation at a time, one token for each message of the agent."""

import msgspec

from edgeopt.bundle.runtime.generation import PromptTooLongError
from edgeopt.bundle.runtime.session import Session
from edgeopt.bundle.runtime.text_generation import TextGeneration
from edgeopt.decoding import thread_safe
from edgeopt.errors import DataError, ModelError, UsageError
from edgeopt_agent.workers.frames import (
    EndGeneration,
    FromWorker,
    Generate,
    GenerationBegun,
    NextPiece,
    Piece,
    PromptRefused,
)

_UNLIMITED = 1 << 40
_PromptText = str | list[dict[str, str]]


class OpenText:
    """The open generation of a session; another one replaces it."""

    def __init__(self, session: Session) -> None:
        """Loads the tokenizer; raises EdgeoptError if there is none that can be used."""
        self._tokenizer = session.tokenizer
        self._session = session
        self._open: TextGeneration | None = None

    def answer(self, message: Generate | NextPiece | EndGeneration, text: memoryview) -> FromWorker:
        """Returns the answer to one message; after an error there is no open generation."""
        generation, self._open = self._open, None
        if isinstance(message, Generate):
            return self._begin(message, text)
        if generation is None or isinstance(message, EndGeneration):
            return Piece("", 0, "closed")
        piece = generation.step()
        if not generation.ending:
            self._open = generation
        return Piece(piece, len(generation.tokens), generation.ending)

    def _begin(self, message: Generate, text: memoryview) -> FromWorker:
        prompt = msgspec.json.decode(text, type=thread_safe(_PromptText))
        try:
            self._open = self._session.generate(
                prompt,
                max_tokens=message.max_tokens or _UNLIMITED,
                stop=message.stop,
                temperature=message.temperature,
                top_p=message.top_p,
                seed=message.seed,
            )
        except (DataError, ModelError, UsageError) as error:
            sentence = f"{error.message} {error.hint}".rstrip()
            return PromptRefused(sentence, isinstance(error, PromptTooLongError))
        return GenerationBegun(len(self._open.prompt_tokens))
