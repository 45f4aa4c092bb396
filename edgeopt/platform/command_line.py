"""Command lines as the user's shell reads them: quotes, and on Windows backslashes that are part of paths."""

import os
import re
import shlex
from collections.abc import Iterable

_PLAIN = re.compile(r"[\w@+=:./\\~-]+")
_PARTS = re.compile(r'\\*"|\\+|\s+|[^\\"\s]+')


def quote_word(word: str) -> str:
    """Returns a word with the quotes that the user's shell needs."""
    if os.name != "nt":
        return shlex.quote(word)
    if _PLAIN.fullmatch(word):
        return word
    # Before a quote, each backslash is written twice.
    escaped = re.sub(r'(\\*)"', r'\1\1\\"', word)
    return '"' + re.sub(r"(\\+)$", r"\1\1", escaped) + '"'


def join_words(words: Iterable[str]) -> str:
    """Returns a command line that the user's shell splits into these words."""
    return " ".join(map(quote_word, words))


def split_words(line: str) -> list[str]:
    """Splits a command line as the user's shell does; raises ValueError if a quote is not closed."""
    return shlex.split(line) if os.name != "nt" else _split_on_windows(line)


def _split_on_windows(line: str) -> list[str]:
    """Splits by the rules of Microsoft's C runtime."""
    words: list[str] = []
    word: str | None = None
    is_quoted = False
    for part in _PARTS.findall(line):
        if part.isspace() and not is_quoted:
            if word is not None:
                words.append(word)
            word = None
        elif part.endswith('"'):
            backslashes = len(part) - 1
            word = (word or "") + "\\" * (backslashes // 2) + '"' * (backslashes % 2)
            is_quoted ^= backslashes % 2 == 0
        else:
            word = (word or "") + part
    if is_quoted:
        raise ValueError("No closing quotation")
    return words if word is None else [*words, word]
