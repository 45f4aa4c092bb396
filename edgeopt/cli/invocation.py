"""How this program was called, so that the commands in messages run as they are printed.

Only for what people read on a terminal: in files, which travel, it stays `edgeopt`.
"""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import msgspec

from edgeopt.cli.commands import COMMANDS

_PROGRAMS = ("edgeopt", "edgeopt-agent")


def program_called() -> tuple[str, str]:
    """The name of the program, and what to type for it: its name only if PATH finds this very file."""
    given = Path(sys.argv[0])
    if given.name == "__main__.py":  # python -m
        return given.parent.name.replace("_", "-"), shlex.join([sys.executable, "-m", given.parent.name])
    name = given.stem if sys.platform == "win32" else given.name
    if name not in _PROGRAMS:  # called from a program of the user's own
        return _PROGRAMS[0], _PROGRAMS[0]
    found = shutil.which(name)
    is_found = found is not None and os.path.realpath(found) == os.path.realpath(given)
    return name, name if is_found else shlex.quote(sys.argv[0])


def as_called(text: str) -> str:
    """The text with the commands in it as this program was called."""
    if _PROGRAMS[0] not in text:
        return text
    name, typed = program_called()
    return text if name == typed else _commands_of(name).sub(lambda found: f"{found[1]}{typed}", text)


def all_as_called(value: Any) -> Any:  # noqa: ANN401 - blocks of any kind, and what they hold
    """The same for all texts of blocks."""
    if isinstance(value, str):
        return as_called(value)
    if isinstance(value, list | tuple):
        return type(value)(all_as_called(each) for each in value)
    if isinstance(value, msgspec.Struct):
        return type(value)(*(all_as_called(getattr(value, name)) for name in value.__struct_fields__))
    return value


def _commands_of(name: str) -> re.Pattern[str]:
    """Where a text names a command: "edgeopt bench" does, "edgeopt measures" does not."""
    if name != _PROGRAMS[0]:
        return re.compile(rf"(: +|[`(']|^){name}(?= [a-z])", re.MULTILINE)
    following = "|".join((*map(re.escape, COMMANDS), "--help", "COMMAND"))
    return re.compile(rf"(?<![\w./-])(){name}(?= (?:{following})(?!\w))")
