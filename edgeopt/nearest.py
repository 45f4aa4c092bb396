"""Suggestions for names that do not exist."""

from collections.abc import Iterable


def near(word: str, known: Iterable[str], maximum: int = 1, alike: float = 0.55) -> list[str]:
    """The known words that it may stand for, the nearest first.

    Before what looks alike comes what differs in capitals alone, or was not written to the end.
    """
    from difflib import get_close_matches

    names = list(dict.fromkeys(known))
    same = [name for name in names if name.lower() == word.lower()]
    begun = [name for name in names if len(word) > 2 and name.lower().startswith(word.lower())]
    lower = {name.lower(): name for name in names}
    return (same or begun or [lower[each] for each in get_close_matches(word.lower(), lower, maximum, alike)])[
        :maximum
    ]


def nearest(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """A hint: the word that was meant; or where nothing is like it, all of them, or something else to say."""
    names = list(known)
    found = near(word, names)
    return f"Did you mean '{found[0]}'?" if found else otherwise or f"There are: {', '.join(names)}."
