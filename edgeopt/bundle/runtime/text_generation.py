"""Generating text: pieces that become final while a decoder generates tokens."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from edgeopt.backends.base import Array
from edgeopt.bundle.runtime.generation import Generation
from edgeopt.errors import UsageError
from edgeopt.text.stream import TextStream
from edgeopt.text.tokenizer import Messages

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Stop = str | int | Sequence[str | int]
"""Texts and token ids that end a generation; each is left out of the result."""
Ids = Sequence[int] | Array
Prompt = str | Messages | Ids


class GenerateKeywords(TypedDict, total=False):
    """Keywords of `Session.generate`."""

    max_tokens: int
    stop: Stop
    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None
    max_step_tokens: int | None


class TextGeneration(Iterator[str]):
    """Generated text, piece by piece; one thread at a time may use it."""

    def __init__(self, generation: Generation, stream: TextStream) -> None:
        self._generation = generation
        self._stream = stream
        self._pieces: list[str] = []
        self._is_complete = False

    def __next__(self) -> str:
        while not self._is_complete:
            if piece := self.step():
                return piece
        raise StopIteration

    def step(self) -> str:
        """Generates one token, or computes a part of the prompt; returns the new text, which may be empty."""
        if self._is_complete or self._generation.prefill():
            return ""
        token = next(self._generation, None)
        if token is None:
            self._is_complete = True
            piece = "" if self.ending == "closed" else self._stream.finish()
        else:
            piece = self._stream.push(token)
        if self._stream.stopped:
            self._is_complete = True
            self._generation.close()
        if piece:
            self._pieces.append(piece)
        return piece

    def close(self) -> None:
        """Ends the generation and frees its cache."""
        self._generation.close()

    @property
    def text(self) -> str:
        """Returns all pieces so far."""
        return "".join(self._pieces)

    @property
    def ending(self) -> str:
        """Returns the reason that there is no more text: `stop`, `max_tokens`, `context` or `closed`."""
        return "stop" if self._stream.stopped else self._generation.ending

    @property
    def prompt_tokens(self) -> list[int]:
        """Returns the token ids of the prompt."""
        return self._generation.prompt_tokens

    @property
    def tokens(self) -> list[int]:
        """Returns the generated token ids so far, those of a stop text included."""
        return self._generation.tokens

    @property
    def first_token_s(self) -> float | None:
        """Returns the seconds that computing the prompt and the first token took; None before."""
        return self._generation.first_token_s


def is_text(prompt: Prompt) -> "TypeIs[str | Messages]":
    """Whether a prompt is a text or messages; otherwise it is token ids."""
    return isinstance(prompt, str) or (len(prompt) > 0 and isinstance(prompt[0], Mapping))


def split_stop(stop: Stop) -> tuple[list[str], list[int]]:
    """Returns the stop texts and the stop ids; raises UsageError for anything else."""
    listed = [stop] if isinstance(stop, str | int) else list(stop)
    texts = [each for each in listed if isinstance(each, str)]
    try:
        return texts, [int(each) for each in listed if not isinstance(each, str)]
    except (TypeError, ValueError):
        raise UsageError("'stop' takes texts and token ids only.", 'Give them as ["\\n", 2].') from None
