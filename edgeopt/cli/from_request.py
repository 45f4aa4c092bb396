"""A command of the command line, made of the struct that says what it can be asked."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

import msgspec
import typer

from edgeopt.options import Option, check_range, options_of

Request = TypeVar("Request", bound=msgspec.Struct)
Own = ParamSpec("Own")


def asks(kind: type[Request]) -> Callable[[Callable[Concatenate[Request, Own], None]], Callable[..., None]]:
    """Makes a command of a function that takes a request; further parameters are options of its own, after those.

    Output formats (`--json`, `--markdown`) are not part of a request, so they are such parameters.
    """

    def made(function: Callable[Concatenate[Request, Own], None]) -> Callable[..., None]:
        _, *own = inspect.signature(function).parameters.values()
        asked = options_of(kind)
        work: Callable[..., None] = function

        def command(**given: Any) -> None:  # noqa: ANN401 - typer gives each the type that its option has
            said = {each.name: _value(each, given.pop(each.name)) for each in asked}
            work(kind(**said), **given)

        parameters = [*map(_parameter, asked), *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own)]
        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # typer reads it
        return command

    return made


def _value(option: Option, given: object) -> object:
    check_range(option, given)
    return tuple(given or ()) if option.many and isinstance(given, list | None) else given


def _parameter(option: Option) -> inspect.Parameter:
    hint: Any = list[option.kind] if option.many else option.kind  # type: ignore[name-defined] # made as it runs
    empty = option.default is None or option.many
    about = typer.Argument if not option.flags else typer.Option
    described = about(
        *option.flags,
        help=f"{option.help}  [{option.range}]" if option.range else option.help,
        metavar=option.metavar or None,
        show_default=option.default not in {None, "", ()} and option.kind is not bool,
    )
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if option.required else None if empty else option.default,
        annotation=Annotated[hint | None if empty and not option.required else hint, described],
    )
