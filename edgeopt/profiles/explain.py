"""A profile value by value: from which file each comes, and why it is so; and as the start of a new profile."""

import re
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from edgeopt.errors import UsageError
from edgeopt.profiles.load import Key, Resolved, Tables, as_toml, shipped_path
from edgeopt.profiles.schema import SCHEMA, TABLES, Value

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


_DATA = """
# How pictures become the model's input, for --data FOLDER; docs/profiles.md tells all its keys.
# [data]
# resize = [256]                  # the shorter side; two numbers are height and width
# crop = [224]                    # the middle of it
# letter_box = [640]              # instead of both: fits in here with its aspect, and the rest is filled
# colour_order = "rgb"            # or "bgr", "gray"
# scale = 0.00392156862745098     # bytes to 0 ... 1
# mean = [0.485, 0.456, 0.406]    # taken off each channel
# std = [0.229, 0.224, 0.225]     # and the rest divided by this
# layout = "nchw"                 # or "nhwc"
# dtype = "float32"               # what the model takes
"""
_COMMENT_COLUMN = 34
_LONGEST_LINE = 115


class ProfileRow(msgspec.Struct, frozen=True):
    """One value of a profile."""

    table: str
    key: str
    value: Value | tuple[Value, ...]
    origin: str
    """The name of the profile that says so."""
    why: str
    items: tuple[str, ...] = ()
    """Reason for each value of a list that is written line by line."""


def explained(resolved: Resolved) -> tuple[ProfileRow, ...]:
    """Every value that a profile or what it extends says, table by table."""
    notes_by_file = {file: notes(file) for file in resolved.files}
    # Not what stands above all tables: that is each file's own.
    values = [(place, value) for place, value in _values(resolved.tables) if len(place) > 1]
    return tuple(
        _row(place, value, resolved.origins[place], notes_by_file[resolved.origins[place]].get(place, Note("")))
        for place, value in sorted(values, key=lambda item: _order(item[0]))
    )


def draft(name: str, base: str, rows: tuple[ProfileRow, ...], title: str) -> str:
    """A new profile that extends another and changes nothing yet: each value is there, commented out."""
    lines = [
        f"# What differs from {base}; uncomment a value to change it, and say why.",
        "# Delete what stays as it is: it is taken from there anyway.",
        f"schema = {SCHEMA}",
        f"name = {as_toml(name)}",
        f"title = {as_toml(title)}",
        f"extends = {as_toml(base)}",
    ]
    table = ""
    for row in rows:
        if row.table != table:
            table = row.table
            lines += ["", f"[{table}]"]
        lines += _lines(row)
    return "\n".join(lines) + "\n" + ("" if any(row.table == "data" for row in rows) else _DATA)


def check_new(name: str, base: Path, out: Path) -> None:
    """The name can be one, the file is not there yet, and the base will be found from it."""
    if not name or name.strip("abcdefghijklmnopqrstuvwxyz0123456789-_") or name == "auto":
        raise UsageError(
            f"'{name}' is not a valid profile name.",
            "Use lower-case letters, digits and hyphens, such as my-camera.",
        )
    if shipped_path(name):
        raise UsageError(f"'{name}' is a profile that comes with edgeopt.", "Choose another name.")
    if out.exists():
        raise UsageError(f"'{out}' already exists.", "Choose another name, or another file with -o.")
    if not out.parent.is_dir():
        raise UsageError(f"There is no folder '{out.parent}'.", "Create it first.")
    # Resolved, as one may give the file of a shipped profile by a path of one's own.
    shipped = shipped_path(base.stem)
    comes_along = shipped is not None and shipped.resolve() == base.resolve()
    if not comes_along and base.parent.resolve() != out.parent.resolve():
        raise UsageError(
            f"A profile must extend a shipped one or one in its own folder; '{base}' is neither for '{out}'.",
            f"Write to that folder: -o {base.parent / out.name}",
        )


def _values(tables: Tables, above: Key = ()) -> Iterator[tuple[Key, Value | list[Value]]]:
    for key, value in tables.items():
        if isinstance(value, dict):
            yield from _values(value, (*above, key))
        else:
            yield (*above, key), value


def _row(place: Key, value: Value | list[Value], origin: Path, note: Note) -> ProfileRow:
    items = note.items if isinstance(value, list) and len(note.items) == len(value) else ()
    kept = tuple(value) if isinstance(value, list) else value
    return ProfileRow(".".join(place[:-1]), place[-1], kept, origin.stem, note.why, items)


def _order(place: Key) -> tuple[int, Key]:
    """The order of the tables in the shipped files; the keys of one table stay as the files have them."""
    tables = tuple(TABLES)
    # What is for single backends, and what that needs, stands between the backends and the limits of the search.
    place_of_search = tables.index("search")
    tables = (*tables[:place_of_search], "lowerings", "runtime", "needs", *tables[place_of_search:])
    table = ".".join(place[:-1])
    return tables.index(table if table in TABLES else place[0]), place[:-1]


def _lines(row: ProfileRow) -> Iterator[str]:
    if not row.items or not isinstance(row.value, tuple):
        line = _commented(f"{row.key} = {as_toml(row.value)}", row.why)
        fits = len(line) <= _LONGEST_LINE
        yield from [line] if fits else [*_above(row.why), f"# {row.key} = {as_toml(row.value)}"]
        return
    yield from _above(row.why)
    yield f"# {row.key} = ["
    for value, why in zip(row.value, row.items, strict=True):
        yield _commented(f"  {as_toml(value)},", why)
    yield "# ]"


def _above(why: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(why, _LONGEST_LINE - 2)]


def _commented(code: str, why: str) -> str:
    line = f"# {code}"
    return f"{line:<{_COMMENT_COLUMN - 1}} # {why}" if why else line
