"""Conversion of Python keywords into the request that the command line would make from options."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import UsageError
from edgeopt.nearest import nearest
from edgeopt.options import Option, check_range, options_of

_Request = TypeVar("_Request", bound=msgspec.Struct)
_Function = TypeVar("_Function", bound=Callable[..., object])
_WORDS = {bool: "True or False", int: "a whole number", float: "a number", str: "text", Path: "a path"}


def read(kind: type[_Request], keywords: Mapping[str, object]) -> _Request:
    """Returns the request with the given keywords; None stands for the default of a field.

    Raises TypeError for an unknown keyword, as Python does; UsageError for a value of another kind or outside
    of its range.
    """
    known = {each.name: each for each in options_of(kind)}
    for name in keywords:
        if name not in known:
            raise TypeError(f"there is no keyword '{name}'; {nearest(name, tuple(known))}")
    return kind(**{name: _value(known[name], value) for name, value in keywords.items() if value is not None})


def takes(
    kind: type[msgspec.Struct], keywords: type, without: tuple[str, ...] = ()
) -> Callable[[_Function], _Function]:
    """Gives a function that reads a request out of its `**keywords` the signature and the help of the request.

    `keywords` is the TypedDict that type checkers read.
    """

    def decorate(function: _Function) -> _Function:
        own = [
            each for each in inspect.signature(function).parameters.values() if each.kind is not each.VAR_KEYWORD
        ]
        named = {each.name for each in own} | {*without}
        options = [each for each in options_of(kind) if each.name not in named]
        parameters = [
            inspect.Parameter(
                each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default,
                annotation=keywords.__annotations__[each.name],
            )
            for each in options
        ]  # fmt: skip
        first = [each for each in own if each.kind is not each.KEYWORD_ONLY]
        last = [each for each in own if each.kind is each.KEYWORD_ONLY]
        lines = [f"    {each.name}: {each.help}" for each in options]
        function.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", "Keywords:", *lines])
        function.__signature__ = inspect.Signature([*first, *parameters, *last])  # type: ignore[attr-defined] # for help()
        return function

    return decorate


def _value(option: Option, value: object) -> object:
    several = None if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    if option.many:
        return tuple(_one(option, each) for each in ([value] if several is None else several))
    if option.kind is str and several is not None:
        return ",".join(map(str, several)) or option.default  # numbers that are typed with commas between
    return _one(option, value)


def _one(option: Option, value: object) -> object:
    if option.kind is Path and isinstance(value, str | Path):
        return Path(value)
    if option.kind is str and isinstance(value, str | Path | int | float) and not isinstance(value, bool):
        return str(value)
    try:
        converted: object = msgspec.convert(value, thread_safe(option.kind))
    except (msgspec.ValidationError, TypeError):
        raise UsageError(f"{option.name} must be {_WORDS[option.kind]}, not {value!r}.") from None
    check_range(option, converted)
    return converted
