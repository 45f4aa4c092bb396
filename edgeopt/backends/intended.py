"""The backend and options that a model file was made for, and where it was proved, in its metadata."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from edgeopt.backends import BACKENDS
from edgeopt.backends.base import Available
from edgeopt.backends.protobuf import opened, parts, text
from edgeopt.decoding import thread_safe

KEY = "edgeopt.run"
_METADATA, _KEY, _VALUE = 14, 1, 2  # ModelProto.metadata_props; the fields of its entries


class Intended(msgspec.Struct, frozen=True):
    backend: str
    options: dict[str, str | int | float | bool | dict[str, list[int]]] = {}
    proved: tuple[str, ...] = ()
    """Other backends in which the model met its goal, with their default options."""
    not_proved: dict[str, str] = {}
    """Installed backends without a proof, with the reason as the rest of a sentence after "it"."""


def encoded(
    backend: str,
    options: Mapping[str, Any],
    proved: Collection[str] = (),
    not_proved: Mapping[str, str] | None = None,
) -> str:
    """Returns the value of the metadata entry `KEY`."""
    others = {"proved": list(proved), "not_proved": dict(not_proved or {})}
    shown = {name: value for name, value in others.items() if value}
    return msgspec.json.encode({"backend": backend, "options": dict(options), **shown}).decode()


def intended(path: Path) -> Intended | None:
    """Returns the intended backend of a file, or None if its metadata has none or cannot be read."""
    value = metadata_value(path, KEY)
    try:
        return msgspec.json.decode(value, type=thread_safe(Intended)) if value else None
    except msgspec.MsgspecError:
        return None


def metadata_value(path: Path, name: str) -> str:
    """Returns the value of a metadata entry of an ONNX file, or an empty text."""
    if path.suffix != ".onnx":
        return ""
    try:
        with opened(path) as data:
            for entry in parts(data, (0, len(data)), (_METADATA,)):
                key = [text(data, span) for span in parts(data, entry, (_KEY,))]
                if key == [name]:
                    return next(text(data, span) for span in parts(data, entry, (_VALUE,)))
    except (OSError, ValueError, IndexError, KeyError, StopIteration):
        return ""
    return ""


def is_usable(backend: str) -> bool:
    """Whether this edgeopt knows the backend and can run it here."""
    return any(each.name == backend and isinstance(each.available(), Available) for each in BACKENDS)
