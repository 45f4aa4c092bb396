"""Options written by a user or a search: checks against the struct of a backend, and their descriptions."""

from types import NoneType, UnionType
from typing import Annotated, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from edgeopt.backends.base import Options
from edgeopt.decoding import thread_safe
from edgeopt.errors import UsageError
from edgeopt.nearest import nearest

Value = str | int | float | bool
Kind = type[bool] | type[int] | tuple[str, ...]
"""The type of a value: true or false, a whole number, or one of these words."""
MAX_THREADS = 1024
Threads = Annotated[int, msgspec.Meta(ge=0, le=MAX_THREADS)]
"""A number of threads, not limited by this device's cores: a bundle may come from a larger device."""
_Struct = TypeVar("_Struct", bound=msgspec.Struct)


class BackendOption(msgspec.Struct, frozen=True):
    """One option of a backend, described for users."""

    name: str
    kind: str
    """Description of the values: `a whole number from 0`, `true or false`, ..."""
    choices: tuple[str, ...]
    """All allowed values; empty if they are not a list."""
    default: Value | None
    """Default value; None: the runtime's own choice, or empty."""
    description: str
    search: tuple[Value, ...] = ()
    """Values that a search may try; empty: a search does not change the option."""


def about(description: str, search: tuple[Value, ...] = (), lean: Value | None = None) -> msgspec.Meta:
    """Returns metadata for `Annotated`: the description of an option, the values that a search may try, and the
    value that may need the least memory."""
    return msgspec.Meta(description=description, extra={"search": search, "lean": lean})


def described(kind: type[msgspec.Struct]) -> tuple[BackendOption, ...]:
    """Returns every option of a backend, its own first, then those that it shares with others."""
    hints = get_type_hints(kind, include_extras=True)
    defaults = {field.name: _default(field.default) for field in msgspec.structs.fields(kind)}
    names = dict.fromkeys(
        name for one in kind.__mro__ for name in vars(one).get("__annotations__", {}) if name in hints
    )
    return tuple(_option(name, hints[name], defaults[name]) for name in names)


def kinds(kind: type[msgspec.Struct]) -> dict[str, Kind]:
    """Returns the kinds of values of the options that a profile may set, by name.

    Free text, such as the name of a folder, is given for one model and not in a profile; so are shapes.
    """
    found: dict[str, Kind] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        part = _parts(hint)[0]
        if choices := _choices(hint):
            found[name] = choices
        elif part in {bool, int}:
            found[name] = bool if part is bool else int
    return found


def lean_values(kind: type[msgspec.Struct]) -> dict[str, Value]:
    """Returns the options that may save memory, each with its value for that."""
    hints = get_type_hints(kind, include_extras=True).items()
    found = {name: meta.extra.get("lean") for name, hint in hints for meta in _metas(hint) if meta.extra}
    return {name: value for name, value in found.items() if value is not None}


def read_options(kind: type[_Struct], options: Options, backend: str) -> _Struct:
    """Returns the options as `kind`; raises a UsageError with the nearest name or value for an unknown one."""
    known = get_type_hints(kind, include_extras=True)
    for name, value in options.items():
        if name not in known:
            raise UsageError(f"The backend {backend} has no option '{name}'.", nearest(name, tuple(known)))
        try:
            msgspec.convert(value, thread_safe(known[name]))
        except msgspec.ValidationError as error:
            choices = tuple(choice or "''" for choice in _choices(known[name]))
            reason = f"must be one of {', '.join(choices)}" if choices else _reason(error)
            hint = nearest(str(value), choices) if choices else ""
            if get_origin(_parts(known[name])[0]) is dict:
                hint = 'Write it as JSON, for instance: {"input": [1, 3, 224, 224]}'
            raise UsageError(f"The option '{name}' of {backend} {reason}, not {value!r}.", hint) from error
    return msgspec.convert(dict(options), thread_safe(kind))


def _option(name: str, hint: object, default: Value | None) -> BackendOption:
    described_by = next((m for m in _metas(hint) if m.description is not None), None)
    extra = (described_by.extra if described_by else None) or {}
    return BackendOption(
        name=name,
        kind=_in_words(hint),
        choices=_choices(hint),
        default=default,
        description=(described_by.description if described_by else None) or "",
        search=tuple(extra.get("search", ())),
    )


def _default(default: object) -> Value | None:
    return default if isinstance(default, (str, int, float, bool)) else None


def _metas(hint: object) -> tuple[msgspec.Meta, ...]:
    """Returns the metadata of a type and of the types within an `X | None`."""
    if get_origin(hint) is Annotated:
        inner, *metas = get_args(hint)
        return (*(m for m in metas if isinstance(m, msgspec.Meta)), *_metas(inner))
    return tuple(m for part in get_args(hint) for m in _metas(part)) if _is_union(hint) else ()


def _is_union(hint: object) -> bool:
    return get_origin(hint) in {Union, UnionType}


def _parts(hint: object) -> tuple[object, ...]:
    """Returns the types that a value may have, without None."""
    if get_origin(hint) is Annotated:
        return _parts(get_args(hint)[0])
    if _is_union(hint):
        return tuple(p for part in get_args(hint) if part is not NoneType for p in _parts(part))
    return (hint,)


def _choices(hint: object) -> tuple[str, ...]:
    return tuple(c for part in _parts(hint) if get_origin(part) is Literal for c in get_args(part))


def _in_words(hint: object) -> str:
    minimum = next((m.ge for m in _metas(hint) if m.ge is not None), None)
    maximum = next((m.le for m in _metas(hint) if m.le is not None), None)
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    part = _parts(hint)[0]
    if get_origin(part) is Literal:
        return "one of these"
    if get_origin(part) in {dict, tuple, list}:
        return "a table" if get_origin(part) is dict else "a list"
    word = words.get(part, "a value") if isinstance(part, type) else "a value"
    if minimum is not None and maximum is not None:
        return f"{word} from {minimum} to {maximum}"
    return word if minimum is None else f"{word} from {minimum}"


def _reason(error: msgspec.ValidationError) -> str:
    """Returns the first half of a message such as "Expected `int` >= 0, got `str`"."""
    reason = str(error).split(", got", 1)[0].split(" - at", 1)[0].replace("Expected", "must be")
    return reason.replace("`object`", "a table").replace("`array`", "a list").replace("`", "")


def as_texts(options: Options) -> tuple[str, ...]:
    """Returns each option as a user writes it: `name=value`."""
    return tuple(f"{name}={_written(value)}" for name, value in options.items())


def written(options: Options) -> str:
    """Returns all options as a user writes them."""
    return ",".join(as_texts(options))


def side_of(backend: str, options: Options) -> str:
    """Returns a backend with its options, as written after the @ of a side: `openvino-cpu,precision=f32`."""
    return ",".join((backend, *as_texts(options)))


def _written(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return msgspec.json.encode(value).decode() if isinstance(value, dict) else str(value)
