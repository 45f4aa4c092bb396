"""The comments of a profile: why each value is what it is."""

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

from edgeopt.profiles.load import Key

_TABLE = re.compile(r"\[([^\[\]]+)\]\s*$")
_KEY = re.compile(r"([\w-]+)\s*=")
_OUTSIDE = re.compile(r""""(?:[^"\\]|\\.)*"|'[^']*'|#""")


class Note(NamedTuple):
    why: str
    """The comment beside the value, else the lines of comment just above it."""
    items: tuple[str, ...] = ()
    """The comments beside the lines of a list, empty for lines without one."""


def notes(path: Path) -> dict[Key, Note]:
    """The comments in this file by table and key."""
    found: dict[Key, Note] = {}
    table: Key = ()
    above: list[str] = []
    lines = iter(path.read_text(encoding="utf-8").splitlines())
    for line in lines:
        code, comment = _split(line)
        if heading := _TABLE.match(code):
            table = tuple(part.strip() for part in heading[1].split("."))
        elif key := _KEY.match(code):
            value, items = [line], []
            while not _complete("\n".join(value)) and (more := next(lines, None)) is not None:
                value.append(more)
                entry, note = _split(more)
                # Not so for a line of comment within the list, nor for the bracket that ends it.
                items += [note] if entry.strip(" ,]") else []
            found[*table, key[1]] = Note(comment or " ".join(above), tuple(items))
        above = [*above, comment] if not code and comment else []
    return found


def _split(line: str) -> tuple[str, str]:
    """The line without its comment, and the comment."""
    for match in _OUTSIDE.finditer(line):
        if match[0] == "#":
            return line[: match.start()].strip(), line[match.end() :].strip()
    return line.strip(), ""


def _complete(text: str) -> bool:
    """The value has come to its end."""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True
