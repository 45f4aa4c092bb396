"""The options of a command, declared once: the fields of a frozen struct.

The command line is made of them (`edgeopt/cli/console.py`), so are the keywords that Python takes
(`edgeopt/keywords.py`), and the app's forms read their names, ranges and help here.
"""

import math
from collections.abc import Mapping
from types import NoneType
from typing import Annotated, get_args, get_origin

import msgspec

from edgeopt.errors import OptionReference, UsageError, flag_of

Number = int | float
DAY_S = 86400.0
WEEK_S = 7 * DAY_S
FASTEST_PER_S = 1e6
"""Runs or requests a second that a clock can still tell apart."""


class Option(msgspec.Struct, frozen=True):
    """One option of a request, for people."""

    name: str
    """Name of the field and of the keyword."""
    help: str
    flags: tuple[str, ...]
    """Flags as typed; empty for a positional argument."""
    metavar: str
    kind: type
    """Type of one value: `Path`, `str`, `int`, `float` or `bool`."""
    many: bool
    """Whether the option can be given several times."""
    default: object
    required: bool
    minimum: Number | None
    maximum: Number | None

    @property
    def flag(self) -> str:
        """Returns the long flag that switches the option on; empty for an argument."""
        return next((flag.partition("/")[0] for flag in self.flags if flag.startswith("--")), "")

    @property
    def range(self) -> str:
        """Returns the range in words: `from 6 to 1000`; empty if no end is declared."""
        minimum, maximum = (None if end is None else f"{end:.15g}" for end in (self.minimum, self.maximum))
        if minimum is not None and maximum is not None:
            return f"from {minimum} to {maximum}"
        return (
            f"at least {minimum}" if minimum is not None else f"at most {maximum}" if maximum is not None else ""
        )


def option(
    help: str,  # noqa: A002 - what typer and argparse call it
    *flags: str,
    metavar: str = "",
    minimum: Number | None = None,
    maximum: Number | None = None,
) -> msgspec.Meta:
    """Declares an option with its help, for use in `Annotated`; without `flags` it has the name of the field.

    `minimum` and `maximum` bound what people type and what Python code gives: see `check_range`.
    """
    return msgspec.Meta(
        description=help,
        extra={"flags": flags, "metavar": metavar, "least": minimum, "most": maximum, "bare": False},
    )


def argument(help: str, metavar: str = "") -> msgspec.Meta:  # noqa: A002 - as above
    """Declares a positional argument."""
    return msgspec.Meta(
        description=help, extra={"flags": (), "metavar": metavar, "least": None, "most": None, "bare": True}
    )


def options_of(kind: type[msgspec.Struct]) -> tuple[Option, ...]:
    """All options of a request, in the order of its fields, which is that of the help."""
    return tuple(_option(field) for field in msgspec.structs.fields(kind))


def option_named(kind: type[msgspec.Struct], name: str) -> Option:
    return next(each for each in options_of(kind) if each.name == name)


def check_range(option: Option, value: object) -> None:
    """Raises UsageError for a number that is not finite, or outside of the range that the option declares.

    The only check of ranges: the command line and Python's keywords both go through it.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    minimum, maximum = option.minimum, option.maximum
    if not math.isfinite(value):
        allowed = f"a number {option.range}" if option.range else "a finite number"
    elif (minimum is None or value >= minimum) and (maximum is None or value <= maximum):
        return
    else:
        allowed = option.range
    named = OptionReference(option.name)
    raise UsageError(
        f"{named if option.flags else option.name} must be {allowed}, not {value:.15g}.", option.help, [named]
    )


def arguments(kind: type[msgspec.Struct], values: Mapping[str, object]) -> tuple[str, ...]:
    """Returns the arguments to type for a request, without values that are None, empty, off or on by default."""
    words: list[str] = []
    for each in options_of(kind):
        value = values.get(each.name)
        if each.default is True:
            words += [each.flags[0].partition("/")[2]] if value is False else []
            continue
        if value is None or value is False or value == "":
            continue
        flags = [each.flags[0].partition("/")[0]] if each.flags else []
        for one in value if isinstance(value, list | tuple) else [value]:
            words += flags if one is True else [*flags, str(one)]
    if unknown := values.keys() - {each.name for each in options_of(kind)}:
        raise TypeError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
    return tuple(words)


def read_shapes(texts: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """`NAME=1x3x224x224`, or `NAME=` for a single number."""
    shapes = {}
    for text in texts:
        name, equals, sizes = text.rpartition("=")
        parts = sizes.lower().split("x") if sizes else []
        if not equals or not name or not all(part.isdecimal() for part in parts):
            raise UsageError(
                f"'{text}' is not a shape.", "Write an input's name and sizes: --shape image=1x3x224x224"
            )
        shapes[name] = tuple(int(part) for part in parts)
    return shapes


def changed(request: msgspec.Struct) -> tuple[Option, ...]:
    """Returns the options whose value is not the default."""
    return tuple(each for each in options_of(type(request)) if getattr(request, each.name) != each.default)


def _option(field: msgspec.structs.FieldInfo) -> Option:
    hint, *metas = get_args(field.type) if get_origin(field.type) is Annotated else (field.type,)
    about = next(meta for meta in metas if isinstance(meta, msgspec.Meta) and meta.description is not None)
    extra = about.extra or {}
    part = next((part for part in get_args(hint) if part is not NoneType), hint)
    many = get_origin(hint) is tuple
    return Option(
        name=field.name,
        help=about.description or "",
        flags=() if extra["bare"] else extra["flags"] or (flag_of(field.name),),
        metavar=extra["metavar"],
        kind=part,
        many=many,
        default=None if field.required else field.default,
        required=field.required,
        minimum=extra["least"],
        maximum=extra["most"],
    )


AllowRandom = Annotated[bool, option("Accept a model that draws random numbers.")]
"""Option of the commands that refuse such a model, because no samples prove anything of it."""
