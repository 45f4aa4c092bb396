"""Messages as protobuf's text format, from plain values."""

import json
from collections.abc import Mapping


class Word(str):
    """The name of a value of an enumeration: written without quotes."""

    __slots__ = ()


def prototext(message: Mapping[str, object], indent: str = "") -> str:
    """One field per line; a list is a repeated field, a mapping a message. Lists of numbers take one line."""
    lines = []
    for name, value in message.items():
        if isinstance(value, list) and all(isinstance(each, int) for each in value):
            lines.append(f"{indent}{name}: [{', '.join(map(str, value))}]")
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Mapping):
                inside = prototext(each, indent + "  ")
                lines.append(f"{indent}{name} {{\n{inside}{indent}}}" if inside else f"{indent}{name} {{ }}")
            else:
                lines.append(f"{indent}{name}: {_scalar(each)}")
    return "".join(f"{line}\n" for line in lines)


def _scalar(value: object) -> str:
    if isinstance(value, Word):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # Bytes beyond ASCII as octal, which both the C++ and the Python parser take.
        return '"' + "".join(_escaped(byte) for byte in value.encode()) + '"'
    return json.dumps(value)


def _escaped(byte: int) -> str:
    if byte in b'"\\':
        return "\\" + chr(byte)
    return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"
