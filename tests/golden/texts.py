"""Golden texts: what the program printed when they were last renewed, and how a later run differs from that."""

import os
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
RENEW = "EDGEOPT_RENEW_GOLDEN"
HOW = (
    "If the change is intended, renew the golden files with `make golden` and commit what changed in tests/golden."
)
VALUE = " = "
# What is below these depends on the machine, so only the keys themselves are compared.
OF_THE_MACHINE = frozenset({"device", "machine", "options", "versions"})


def check_text(place: str, text: str) -> None:
    """Fails if a text differs from its golden file; writes the file instead where golden files are renewed."""
    golden = _golden(place)
    found, kept = text.splitlines(), golden.splitlines()
    changes = [f"- {line}" for line in kept if line not in found]
    changes += [f"+ {line}" for line in found if line not in kept]
    if text != golden:
        _renew_or_fail(place, text, changes or ["The order of lines changed."])


def check_record(place: str, record: Any, pinned: str) -> None:
    """The same for the keys and types of a record, and for the values at paths that match `pinned`."""
    text = "\n".join(_lines(record, re.compile(pinned))) + "\n"
    if changes := changed(_parsed(_golden(place)), _parsed(text)):
        _renew_or_fail(place, text, changes)


def changed(golden: dict[str, str], found: dict[str, str]) -> list[str]:
    """How the lines of a record differ. Machines differ in what is null or empty, so that is no difference."""
    changes = []
    for path in dict.fromkeys((*golden, *found)):
        before, now = golden.get(path), found.get(path)
        if before == now or (None in {before, now} and _is_unknown_in(golden if before is None else found, path)):
            continue
        if before is None or now is None:
            changes.append(f"+ {path}: {now}" if before is None else f"- {path}: {before}")
        elif VALUE in before or VALUE in now or not _agree(before, now):
            changes.append(f"{path}: {_words(before, now)} -> {_words(now, before)}")
    return changes


def _words(text: str, other: str) -> str:
    """The values that only this text has, where both are lists of values."""
    (kind, _, values), (_, _, others) = text.partition(VALUE), other.partition(VALUE)
    only = [each for each in values.split(", ") if each not in others.split(", ")]
    return text if len(values) < 60 or not others else f"{kind} with {', '.join(only) or 'nothing more'}"


def _is_unknown_in(record: dict[str, str], path: str) -> bool:
    """The nearest parent in the record is null or empty, so nothing is known of what is below it."""
    parent = path
    while parent not in record and parent:
        parent = parent.removesuffix("[]") if parent.endswith("[]") else parent.rpartition(".")[0]
    return parent != "" and not any(each.startswith((f"{parent}.", f"{parent}[]")) for each in record)


def _agree(before: str, now: str) -> bool:
    known, seen = ({*types.split("|")} - {"null"} for types in (before, now))
    return not known or not seen or not known.isdisjoint(seen)


def _golden(place: str) -> str:
    file = FOLDER / place
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _renew_or_fail(place: str, text: str, changes: list[str]) -> None:
    file = FOLDER / place
    if not os.environ.get(RENEW):
        differs = f"tests/golden/{place} {'differs' if file.exists() else 'is missing'}:"
        raise AssertionError("\n".join([differs, *(f"  {line}" for line in changes), HOW]))
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _parsed(text: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in text.splitlines())


def _lines(record: Any, pinned: re.Pattern[str]) -> list[str]:
    """`path: types` for each place in a record, and `path: types = values` where it is pinned."""
    types: dict[str, set[str]] = {}
    values: dict[str, list[str]] = {}
    _walk(record, "", types, values)
    return [
        f"{path}: {'|'.join(sorted(found))}"
        + (VALUE + ", ".join(dict.fromkeys(values[path])) if path in values and pinned.fullmatch(path) else "")
        for path, found in types.items()
    ]


def _walk(value: Any, path: str, types: dict[str, set[str]], values: dict[str, list[str]]) -> None:
    names = {dict: "object", list: "list", str: "text", type(None): "null"}
    if path:
        types.setdefault(path, set()).add(names.get(type(value), type(value).__name__))
    if isinstance(value, dict):
        for key, below in value.items():
            _walk(
                {} if key in OF_THE_MACHINE and below else below, f"{path}.{key}" if path else key, types, values
            )
    elif isinstance(value, list):
        for below in value:
            _walk(below, f"{path}[]", types, values)
    else:
        values.setdefault(path, []).append(str(value).replace("\n", " "))
