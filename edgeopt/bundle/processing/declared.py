"""Reads the files that declare processing: [data] for pictures before a model, [[steps]] after it."""

import tomllib
from pathlib import Path
from typing import Any

import msgspec

from edgeopt.bundle.processing.schema import KINDS, Pictures, Step
from edgeopt.errors import ProfileError, UsageError
from edgeopt.nearest import nearest
from edgeopt.profiles.load import checked_data
from edgeopt.profiles.schema import TargetProfile

_DATA_HINT = "docs/profiles.md lists the keys of [data]."
_STEPS_HINT = "docs/bundles.md lists the steps with their keys."


def read_pictures(path: Path) -> Pictures:
    """The [data] table of a file: one of its own, or a target profile with which pictures were prepared."""
    tables = _read(path)
    data = tables.get("data")
    if not isinstance(data, dict):
        raise ProfileError(f"{path}: the table [data] is missing, which says how to prepare pictures.", _DATA_HINT)
    odd = next((name for name in tables if name not in TargetProfile.__struct_fields__), None)
    if odd is not None:
        raise ProfileError(f"{path}: the top level has no key '{odd}'.", _DATA_HINT)
    checked_data(data, path)
    return msgspec.convert({name: value for name, value in data.items() if name != "most_samples"}, Pictures)


def read_steps(path: Path) -> tuple[Step, ...]:
    """The [[steps]] of a file, in their order."""
    tables = _read(path)
    odd = next((name for name in tables if name != "steps"), None)
    listed = tables.get("steps")
    if odd is not None or not isinstance(listed, list) or not listed:
        what = f"the top level has no key '{odd}'" if odd is not None else "the table [[steps]] is missing"
        raise ProfileError(f"{path}: {what}; postprocessing is a list of [[steps]].", _STEPS_HINT)
    return tuple(_step(each, number, path) for number, each in enumerate(listed, 1))


def _step(table: object, number: int, path: Path) -> Step:
    where = f"{path}: step {number}"
    if not isinstance(table, dict):
        raise ProfileError(f"{where} is not a table.", _STEPS_HINT)
    known = {str(kind.__struct_config__.tag): kind for kind in KINDS}
    kind = known.get(str(table.get("do")))
    if kind is None:
        said = f"does not know '{table['do']}'" if "do" in table else "does not say what to do"
        raise ProfileError(f"{where} {said}.", nearest(str(table.get("do", "")), tuple(known)))
    fields = kind.__struct_fields__
    odd = next((key for key in table if key not in {*fields, "do"}), None)
    if odd is not None:
        raise ProfileError(f"{where} ({table['do']}) has no key '{odd}'.", nearest(odd, fields))
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise ProfileError(f"{where} ({table['do']}): {error}.", _STEPS_HINT) from None


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"There is no file '{path}'.", "Check the path.") from None
    except OSError as error:
        raise ProfileError(f"{path} cannot be read: {error.strerror}.", "Check the path.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProfileError(f"{path} is not valid TOML: {error}.", "Correct that line.") from None
