"""TOML: reading untrusted files, and writing files that people read."""

import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

_DEEPEST_KEY = 32
# Strings and comments of TOML, each to its end or to the end of the text; the rest are keys.
_QUOTED = re.compile(
    r'"""(?:[^\\]|\\.)*?(?:"""|\Z)'
    r"|'''.*?(?:'''|\Z)"
    r'|"(?:[^"\\\n]|\\.)*(?:"|\n|\Z)'
    r"|'[^'\n]*(?:'|\n|\Z)"
    r"|#[^\n]*",
    re.DOTALL,
)
_BETWEEN_KEYS = re.compile(r"[=,\[\]{}\n]")
_WIDTH = 100
_LONG = 120


def read_toml(text: str) -> dict[str, Any]:
    """Raises ValueError or RecursionError with what is wrong."""
    bare = _QUOTED.sub(lambda found: "\n" if found[0].endswith("\n") else "s", text)
    if any(part.count(".") > _DEEPEST_KEY for part in _BETWEEN_KEYS.split(bare)):
        raise ValueError(f"a key has more than {_DEEPEST_KEY} parts")
    return tomllib.loads(text)


_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_commented_toml(plain: Mapping[str, Any], head: str, comments: Mapping[str, str]) -> str:
    """`comments` stand before the sections of these names; of several alike before the first."""
    lines = [f"# {line}".rstrip() for line in head.splitlines()]
    written: set[str] = set()
    lines += ["", *_values(plain)]
    for name, value in plain.items():
        lines += _section((name,), value, comments, written)
    return "\n".join(lines) + "\n"


def _section(path: tuple[str, ...], value: Any, comments: Mapping[str, str], written: set[str]) -> list[str]:  # noqa: ANN401 - TOML's own values
    if _is_tables(value):
        return [line for one in value for line in _table(path, one, "[[{}]]", comments, written)]
    return _table(path, value, "[{}]", comments, written) if isinstance(value, Mapping) else []


def _table(
    path: tuple[str, ...], table: Mapping[str, Any], brackets: str, comments: Mapping[str, str], written: set[str]
) -> list[str]:
    dotted = ".".join(path)
    lines = [""]
    if dotted in comments and dotted not in written:
        written.add(dotted)
        lines += [f"# {line}" for line in comments[dotted].splitlines()]
    lines += [brackets.format(".".join(_key(part) for part in path)), *_values(table)]
    for name, value in table.items():
        lines += _section((*path, name), value, comments, written)
    return lines


def _values(table: Mapping[str, Any]) -> list[str]:
    """The keys of a table itself, which come before its nested tables."""
    return [
        f"{_key(name)} = {_value(value, len(_key(name)) + 3)}"
        for name, value in table.items()
        if not isinstance(value, Mapping) and not _is_tables(value)
    ]


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) for each in value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _string(name)


def _value(value: object, indent: int) -> str:
    if isinstance(value, str):
        return _lines(value) if len(value) > _LONG and value.isascii() and " " not in value else _string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Sequence):
        return _list([_value(each, 0) for each in value], indent)
    raise TypeError(f"{type(value).__name__} has no place in TOML")


def _string(text: str) -> str:
    """A basic string; those of JSON differ in one character alone."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _lines(text: str) -> str:
    """A long text without spaces, cut into lines; a backslash at the end joins it with the next."""
    pieces = [text[k : k + _WIDTH] for k in range(0, len(text), _WIDTH)]
    inside = "\\\n".join(piece.replace("\\", "\\\\").replace('"', '\\"') for piece in pieces)
    return f'"""\\\n{inside}\\\n"""'


def _list(items: list[str], indent: int) -> str:
    whole = f"[{', '.join(items)}]"
    if indent + len(whole) <= _WIDTH:
        return whole
    lines, line = [], " "
    for item in items:
        if len(line) > 1 and len(line) + len(item) + 2 > _WIDTH:
            lines.append(line)
            line = " "
        line += f" {item},"
    return "\n".join(["[", *lines, line, "]"])
