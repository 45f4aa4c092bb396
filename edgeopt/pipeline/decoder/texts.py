"""Texts as token ids of equal length: those of the user, those of edgeopt, or random ids."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from edgeopt import units
from edgeopt.backends.base import Array
from edgeopt.data.read import read_arrays
from edgeopt.errors import DataError, EdgeoptError, OptionReference, UsageError
from edgeopt.text.sample_text import SAMPLE_TEXT
from edgeopt.text.tokenizer import Tokenizer, load_tokenizer

FEWEST_TEXTS = 4
_SEED, _RANDOM_TEXTS = 72, 32
_IDS = "ids"
_TEXT_HINT = "Give a text file in UTF-8, or an .npz of token ids."
_DATA, _PROMPT, _NEW = (OptionReference(name) for name in ("data", "prompt_tokens", "new_tokens"))


class Texts(NamedTuple):
    """Token ids of texts of equal length."""

    rows: tuple[tuple[int, ...], ...]
    warning: str = ""
    """Warning that names the texts if they are not just those of the user; otherwise empty."""
    source: Literal["data", "sample", "random"] = "data"
    """Texts of the user, the small text of edgeopt, or random tokens."""


def read_texts(
    folder: Path, data: Path | None, tokens: str, length: int, vocabulary: int, states: Collection[str] = ()
) -> Texts:
    """Returns texts of `length` tokens; raises DataError if the data has fewer than four different ones.

    `folder`: the tokenizer's. `states`: inputs of the cache. Data that has them, as `edgeopt import` writes it,
    holds single steps, whose tokens are not texts: then the texts are those of edgeopt, with a warning.
    """
    if data is None:
        return _without_data(folder, length, vocabulary, "No data")
    warning = ""
    if data.suffix == ".npz" or data.is_dir():
        arrays = read_arrays(data)
        if any(name in arrays for name in states):
            return _without_data(folder, length, vocabulary, f"'{data.name}' has steps of the cache, not texts")
        ids = _ids_in(data.name, arrays, tokens)
        rows = _rows_of(ids, length)
        if ids.ndim > 1 and ids.shape[-1] < length:
            warning = (
                f"The rows of '{data.name}' have {units.count(ids.shape[-1], 'token')}, fewer than {length}: "
                "texts are joined from consecutive rows."
            )
    else:
        try:
            text = data.read_text(encoding="utf-8")
        except OSError as error:
            raise DataError(f"The text '{data}' cannot be read: {error.strerror}.", "Check the path.") from None
        except UnicodeDecodeError:
            raise DataError(f"The text '{data}' is not UTF-8.", _TEXT_HINT) from None
        if not text.strip():
            raise DataError(f"The text '{data}' is empty.", _TEXT_HINT)
        rows = _cut(load_tokenizer(folder), text, length)
    wrong = next((each for row in rows for each in row if not 0 <= each < vocabulary), None)
    if wrong is not None:
        raise DataError(
            f"There is no token {wrong}: the vocabulary has {vocabulary} tokens.",
            "Use the tokenizer that belongs to the model.",
            [_DATA],
        )
    if (different := len(set(rows))) < FEWEST_TEXTS:
        found = units.count(different, "text" if different == len(rows) else "different text")
        raise DataError(
            f"The data has {found} of {length} tokens; at least {FEWEST_TEXTS} are needed.",
            f"Give a longer text, more different rows, or fewer tokens with {_PROMPT} and {_NEW}.",
            [_DATA, _PROMPT, _NEW],
        )
    return Texts(rows, warning)


def _without_data(folder: Path, length: int, vocabulary: int, why_own: str) -> Texts:
    try:
        rows = _cut(load_tokenizer(folder), SAMPLE_TEXT, length)
    except EdgeoptError as error:
        why = error.message
    else:
        if len(rows) >= FEWEST_TEXTS and max(map(max, rows)) < vocabulary:
            return Texts(
                rows,
                f"{why_own}: measured and judged on a small text of edgeopt, not on yours. Pass a text: {_DATA}.",
                "sample",
            )
        why = f"The text of edgeopt has {len(rows)} texts of {length} tokens, which are too few."
    random = np.random.default_rng(_SEED).integers(0, vocabulary, (_RANDOM_TEXTS, length))
    return Texts(
        tuple(tuple(row) for row in random.tolist()),
        f"{why_own}: measured and judged on random tokens, whose accuracy says little about texts. {why} "
        f"Pass {_DATA}.",
        "random",
    )


def _cut(tokenizer: Tokenizer, text: str, length: int) -> tuple[tuple[int, ...], ...]:
    """Returns consecutive parts of a text; each begins with the tokens that the tokenizer puts before any text."""
    first, second = (tokenizer.encode(each) for each in ("a", "b"))
    begin: list[int] = []
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        begin.append(one)
    own = tokenizer.encode(text)[len(begin) :]
    size = max(1, length - len(begin))
    return tuple((*begin, *own[k : k + size]) for k in range(0, len(own) - size + 1, size))


def _ids_in(
    name: str, arrays: Mapping[str, Array], tokens: str
) -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]]":
    found = next((arrays[each] for each in (tokens, _IDS) if each in arrays), None)
    if found is None or found.dtype.kind not in "iu" or found.ndim not in (1, 2, 3):
        raise UsageError(
            f"'{name}' has no array '{tokens}' or '{_IDS}' of integers.",
            "Give a text file, or an .npz with a row of token ids for each text.",
            [_DATA],
        )
    return found.astype(np.int64)


def _rows_of(ids: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]", length: int) -> tuple[tuple[int, ...], ...]:
    """Returns the first tokens of each row; rows that are too short are joined."""
    rows = ids.reshape(-1, ids.shape[-1]) if ids.ndim > 1 else ids[None]
    if rows.shape[1] < length:
        joined = rows.reshape(-1)
        rows = joined[: len(joined) // length * length].reshape(-1, length)
    return tuple(tuple(row) for row in rows[:, :length].tolist())
