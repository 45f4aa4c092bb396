"""Reads device records from files, so that one can plan for a device that is not here."""

from pathlib import Path

import msgspec

from edgeopt.errors import InputError
from edgeopt.hw.device import SCHEMA, Device

_HINT = "Make one on the device itself: edgeopt probe --json > device.json"


class _Line(msgspec.Struct, frozen=True):
    """What `edgeopt probe --json` prints, or the record alone."""

    schema: int | None = None
    event: str | None = None
    kind: str | None = None
    data: msgspec.Raw = msgspec.Raw()


def result_line(text: bytes, kind: str) -> bytes | None:
    """Of several events, one a line, as `--json` prints them, the last result of this kind."""
    for one in reversed(text.splitlines()):
        if one.startswith(b'{"event"'):
            line = msgspec.json.decode(one, type=_Line)
            if (line.event, line.kind) == ("result", kind):
                return one
    return None


def read_device(path: Path) -> Device:
    """The record, alone or as the result that `edgeopt probe --json` prints; unknown keys are ignored."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"The device record '{path}' cannot be read: {error.strerror or error}.", _HINT
        ) from error
    try:
        text = result_line(text, "probe") or text
        line = msgspec.json.decode(text, type=_Line)
        if line.event is not None:
            if (line.event, line.kind) != ("result", "probe"):
                what = line.kind or line.event
                raise InputError(f"The file '{path}' contains no device record but the event '{what}'.", _HINT)
            text = bytes(line.data)
            line = msgspec.json.decode(text, type=_Line)
        if line.schema is not None and line.schema > SCHEMA:
            raise InputError(
                f"The device record '{path}' has schema {line.schema}; this edgeopt reads up to {SCHEMA}.",
                "Update edgeopt here, or probe the device with the version installed here.",
            )
        device = msgspec.json.decode(text, type=Device)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"The file '{path}' is not a device record: {error}.", _HINT) from error
    if device.limits.usable_cores < 1 or device.cpu.logical_cores < 1 or device.memory.total_bytes < 0:
        raise InputError(f"The device record '{path}' has no cores or a negative amount of memory.", _HINT)
    return device
