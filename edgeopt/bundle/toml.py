"""Untrusted TOML: a parser's time grows with the square of a key's depth."""

import re
import tomllib
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


def read_toml(text: str) -> dict[str, Any]:
    """Raises ValueError or RecursionError with what is wrong."""
    bare = _QUOTED.sub(lambda found: "\n" if found[0].endswith("\n") else "s", text)
    if any(part.count(".") > _DEEPEST_KEY for part in _BETWEEN_KEYS.split(bare)):
        raise ValueError(f"a key has more than {_DEEPEST_KEY} parts")
    return tomllib.loads(text)
