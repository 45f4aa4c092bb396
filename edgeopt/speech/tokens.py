"""Tokens of Whisper that say what to write: the language, the task, and which tokens are never generated."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from edgeopt.errors import ModelError, UsageError
from edgeopt.text.tokenizer import SETTINGS, Tokenizer, read_json

TASKS = ("transcribe", "translate")


class SpeechSettings(msgspec.Struct, frozen=True):
    """Settings of speech models in `generation_config.json`."""

    lang_to_id: dict[str, int] = {}
    """The token of each language, such as `<|en|>`; empty for models of English alone."""
    is_multilingual: bool | None = None
    suppress_tokens: tuple[int, ...] | None = None
    """Tokens that are never generated."""
    begin_suppress_tokens: tuple[int, ...] | None = None
    """Tokens that are not generated first."""
    max_length: int | None = None
    """The largest number of tokens, those of the prompt included."""


class SpeechTokens:
    """The tokens that begin a transcript."""

    def __init__(self, folder: Path, tokenizer: Tokenizer) -> None:
        """Reads the settings in the folder of the tokenizer; raises ModelError where they are incomplete."""
        self._tokenizer = tokenizer
        self.settings = read_json(folder / SETTINGS, SpeechSettings) or SpeechSettings()
        self.languages = {name.strip("<|>"): token for name, token in self.settings.lang_to_id.items()}
        """The token of each language by its code, such as `en`."""
        if self.settings.is_multilingual and not self.languages:
            raise ModelError(
                "The model has several languages, but its generation_config.json has no 'lang_to_id'.",
                "Take the generation_config.json of the model that it was trained from.",
            )
        self.start = self._token("startoftranscript")
        self.no_timestamps = self._token("notimestamps")
        """The token for text without times; the tokens above it are times."""

    def check(self, language: str | None, task: str) -> None:
        """Raises UsageError for a language or task that the model does not have."""
        if task not in TASKS:
            raise UsageError(f"There is no task '{task}'.", f"The tasks are: {', '.join(TASKS)}.")
        known = self.languages or {"en": self.start}
        if language is not None and language not in known:
            raise UsageError(f"The model has no language '{language}'.", f"It has: {', '.join(sorted(known))}.")
        if task == "translate" and not self.languages:
            raise UsageError("The model has English alone, so it does not translate.", "Leave the task out.")

    def prompt(self, language: str | None, task: str) -> list[int]:
        """Returns the tokens that the transcript begins after."""
        named = [self.languages[language], self._token(task)] if self.languages and language is not None else []
        return [self.start, *named, self.no_timestamps]

    def text(self, ids: Sequence[int]) -> str:
        """Returns the text of tokens, without times and special tokens."""
        return self._tokenizer.decode([each for each in ids if each <= self.no_timestamps])

    def _token(self, name: str) -> int:
        found = self._tokenizer.token_id(f"<|{name}|>")
        if found is None:
            raise ModelError(
                f"The tokenizer has no token <|{name}|>, so it is not that of a Whisper model.",
                "Use the tokenizer that belongs to the model.",
            )
        return found
