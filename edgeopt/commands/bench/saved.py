"""Reports on disk: written so that a crash leaves the old file or the new one, and read back."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from edgeopt.errors import InputError
from edgeopt.measure.files import writing
from edgeopt.measure.report import SCHEMA

_HINT = "Save one with: edgeopt bench MODEL --save FILE"


def save(report: msgspec.Struct, path: Path) -> None:
    """Writes a report as JSON, in one step where that can be."""
    text = msgspec.json.encode(report) + b"\n"
    with writing(path) as file:
        file.write(text)


def read_result(path: Path) -> dict[str, Any]:
    """Reads a result of any duty, from `--save` or the lines of `--json`, as a dict rather than its record."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InputError(f"The saved run '{path}' cannot be read: {error.strerror or error}.", _HINT) from error
    with _explain_read_errors(path):
        lines = [line for line in text.splitlines() if line.strip()]
        found = msgspec.json.decode(lines[-1] if lines else b"")
        if not isinstance(found, dict):
            raise msgspec.ValidationError("no table of values")
        data = _result(found, path)
        if int(data.get("schema", SCHEMA)) > SCHEMA:
            raise InputError(
                f"'{path}' was saved by a newer edgeopt (schema {data['schema']}; this one reads up to {SCHEMA}).",
                "Update edgeopt here.",
            )
        levels = [level for side in data.get("sides", ()) for level in side.get("levels", ())]
        intervals = [each["speedup"] for each in data.get("comparisons", ()) if each["speedup"] is not None]
        for ends in (*intervals, *(level["gain"] for level in levels if level.get("gain"))):
            # An interval may be open to one side, and JSON has no word for that.
            ends["high"] = math.inf if ends["high"] is None else ends["high"]
        return data


@contextmanager
def _explain_read_errors(path: Path) -> Iterator[None]:
    """Raises InputError for whatever is wrong with a file, from its bytes to its keys."""
    try:
        yield
    except (
        msgspec.MsgspecError,
        UnicodeDecodeError,
        ValueError,
        RecursionError,
        AttributeError,
        TypeError,
        KeyError,
    ) as error:
        raise InputError(f"'{path}' is not a saved run: {error}.", _HINT) from error


def _result(found: dict[str, Any], path: Path) -> dict[str, Any]:
    if "event" not in found:
        return found
    if found.get("event") == "error":
        raise InputError(f"The run in '{path}' failed: {found.get('message', '')}", "Measure again.")
    if (found.get("event"), found.get("kind")) != ("result", "bench") or not isinstance(found.get("data"), dict):
        what = found.get("kind") or found["event"]
        raise InputError(f"The last line of '{path}' is '{what}', not a result of edgeopt bench.", _HINT)
    data: dict[str, Any] = found["data"]
    return data
