"""Options as written by a user or a search, checked against a backend's own struct."""

from difflib import get_close_matches
from typing import Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from edgeopt.backends.base import Options
from edgeopt.errors import UsageError

_Struct = TypeVar("_Struct", bound=msgspec.Struct)


def read_options(kind: type[_Struct], options: Options, backend: str) -> _Struct:
    """The options as `kind`; an unknown name or value is a UsageError that names the nearest real one."""
    known = get_type_hints(kind, include_extras=True)
    for name, value in options.items():
        if name not in known:
            raise UsageError(f"The backend {backend} has no option '{name}'.", _nearest(name, tuple(known)))
        try:
            msgspec.convert(value, known[name])
        except msgspec.ValidationError as error:
            choices = _choices(known[name])
            reason = f"must be one of {', '.join(choices)}" if choices else _reason(error)
            hint = _nearest(str(value), choices) if choices else ""
            raise UsageError(f"The option '{name}' of {backend} {reason}, not {value!r}.", hint) from error
    return msgspec.convert(dict(options), kind)


def _choices(hint: object) -> tuple[str, ...]:
    return tuple(c or "''" for c in get_args(hint)) if get_origin(hint) is Literal else ()


def _reason(error: msgspec.ValidationError) -> str:
    """msgspec says "Expected `int` >= 0, got `str`"; only the first half is worth repeating."""
    return str(error).split(", got", 1)[0].split(" - at", 1)[0].replace("Expected", "must be").replace("`", "")


def _nearest(word: str, words: tuple[str, ...]) -> str:
    near = get_close_matches(word, words, 1, 0.5)
    return f"Did you mean '{near[0]}'?" if near else f"It takes: {', '.join(words)}."
