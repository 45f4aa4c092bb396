"""Finds actions by what somebody typed: letters in their order, better where they begin words or hang together."""

from collections.abc import Callable, Iterable
from typing import TypeVar

Thing = TypeVar("Thing")


def score(typed: str, text: str) -> float | None:
    """Returns how well a text matches what was typed, higher is better; None if a letter is missing."""
    letters = "".join(typed.lower().split())
    haystack = text.lower()
    if not letters:
        return 0.0
    whole = haystack.find(" ".join(typed.lower().split()))
    total = (
        100.0 if whole == 0 else 60.0 if whole > 0 and haystack[whole - 1] == " " else 30.0 if whole > 0 else 0.0
    )
    places = _places(haystack, letters, prefer_words=True) or _places(haystack, letters, prefer_words=False)
    if not places:
        return None
    for before, place in zip((-2, *places), places, strict=False):
        total += 8.0 if _begins_word(haystack, place) else 5.0 if place == before + 1 else 1.0
    return total - len(haystack) / 100


def best(typed: str, things: Iterable[Thing], text: Callable[[Thing], str]) -> list[Thing]:
    """Returns the things whose text matches, best match first; all in the given order if nothing is typed."""
    scored = [(score(typed, text(thing)), thing) for thing in things]
    fitting = [(points, thing) for points, thing in scored if points is not None]
    fitting.sort(key=lambda pair: -pair[0])
    return [thing for _, thing in fitting]


def _places(haystack: str, letters: str, *, prefer_words: bool) -> list[int]:
    """Returns the positions of the letters, in ascending order; empty if one is missing."""
    places: list[int] = []
    for letter in letters:
        start = places[-1] + 1 if places else 0
        first = haystack.find(letter, start)
        if first < 0:
            return []
        found = first
        if prefer_words and first != start:
            # A match at the beginning of a later word counts more than an earlier match inside a word.
            found = next((p for p in range(first, len(haystack)) if _is_head(haystack, p, letter)), first)
        places.append(found)
    return places


def _is_head(haystack: str, place: int, letter: str) -> bool:
    return haystack[place] == letter and _begins_word(haystack, place)


def _begins_word(haystack: str, place: int) -> bool:
    return place == 0 or not haystack[place - 1].isalnum()
