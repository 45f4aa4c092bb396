"""Decoding of generated tokens into pieces of text that later tokens do not change."""

from collections.abc import Callable, Sequence

from edgeopt.errors import UsageError

_CONTEXT_TOKENS = 6
"""Tokens of the prompt that are decoded with the first ones: some tokenizers drop the space before a text."""
_INCOMPLETE = "\ufffd"


class TextStream:
    """Text of tokens that arrive one by one.

    A piece never ends inside a character, nor with the beginning of a stop text.
    """

    def __init__(
        self, decode: Callable[[Sequence[int]], str], prompt: Sequence[int] = (), stop: Sequence[str] = ()
    ) -> None:
        if "" in stop:
            raise UsageError("A stop text cannot be empty.", "Leave it out.")
        self.stopped = False
        """Whether a stop text came; the text before it is complete."""
        self._decode = decode
        self._ids = list(prompt[-_CONTEXT_TOKENS:])
        # What is decoded begins at a place whose text was final: tokens are decoded differently at the begin.
        self._final = len(self._ids)
        self._stop = tuple(stop)
        self._held = ""

    def push(self, token: int) -> str:
        """Adds a token and returns the text that became final, which may be empty."""
        self._ids.append(token)
        text = self._pending()
        if not text or text.endswith(_INCOMPLETE):
            return ""
        self._ids = self._ids[self._final :]
        self._final = len(self._ids)
        return self._before_stop(text)

    def finish(self) -> str:
        """Returns the rest of the text; an incomplete character at its end is dropped."""
        rest = self._before_stop(self._pending().rstrip(_INCOMPLETE))
        rest, self._held = rest + self._held, ""
        return rest

    def _pending(self) -> str:
        return self._decode(self._ids)[len(self._decode(self._ids[: self._final])) :]

    def _before_stop(self, text: str) -> str:
        text = self._held + text
        found = [place for each in self._stop if (place := text.find(each)) >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)]
        begun = max((_begun(text, each) for each in self._stop), default=0)
        end = len(text) - begun
        self._held = text[end:]
        return text[:end]


def _begun(text: str, stop: str) -> int:
    """Returns how many characters at the end of the text may be the beginning of a stop text."""
    longest = min(len(stop) - 1, len(text))
    return next((count for count in range(longest, 0, -1) if text.endswith(stop[:count])), 0)
