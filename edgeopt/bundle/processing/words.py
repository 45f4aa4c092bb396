"""What is done before and after a model, in words."""

import msgspec

from edgeopt.bundle.deployment import Part


def said_of(part: Part) -> str:
    """In one line: which file, or which steps."""
    if part.is_file:
        return f"an ONNX file, {part.sha256[:12]}"
    if part.pictures is not None:
        return f"pictures: {_listed(part.pictures)}"
    return ", ".join(f"{step.__struct_config__.tag} ({_listed(step)})" for step in part.steps)


def _listed(record: msgspec.Struct) -> str:
    told = {name: value for name, value in msgspec.to_builtins(record).items() if name != "do"}
    return ", ".join(f"{name} {_value(value)}" for name, value in told.items())


def _value(value: object) -> str:
    if not isinstance(value, list | tuple):
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    return ("x" if all(isinstance(each, int) for each in value) else " / ").join(map(_value, value))
