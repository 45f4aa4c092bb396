"""Files that a request names, and its arguments with their places on the device."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from edgeopt.errors import ModelError, UsageError
from edgeopt.options import Option, arguments, changed


class RemoteRequest(msgspec.Struct, frozen=True):
    arguments: tuple[str, ...]
    files: dict[str, Path]
    """Local files by their paths in the folder of the run."""
    outputs: dict[str, Path]
    """Local paths of the files that the command writes, by their paths on the device."""
    names: dict[str, str]
    """Local names of the paths on the device."""


class _Placing:
    def __init__(self, run: str) -> None:
        self._run = run
        self.files: dict[str, Path] = {}
        self.names: dict[str, str] = {}

    def put(self, path: Path, shown: str) -> str:
        """Adds a file with what belongs to it, or a folder with all in it; returns its path on the device."""
        place = f"in/{len(self.names)}"
        if path.is_dir():
            for each in sorted(path.rglob("*")):
                if each.is_file():
                    self.files[f"{place}/{path.name}/{each.relative_to(path).as_posix()}"] = each
        else:
            for each in (path, *files_beside(path)):
                self.files[f"{place}/{each.relative_to(path.parent).as_posix()}"] = each
        there = f"{self._run}/{place}/{path.resolve().name if path.name in {'', '.', '..'} else path.name}"
        self.names[there] = shown
        return there

    def put_named(self, text: str, sign: str) -> str:
        """Adds the file at the start of a text, up to the sign; returns the text with its path on the device."""
        if Path(text).exists():
            return self.put(Path(text), text)
        name, found, rest = text.partition(sign)
        return f"{self.put(Path(name), name)}{found}{rest}" if name and Path(name).exists() else text


def place(request: msgspec.Struct, run: str, outputs: frozenset[str]) -> RemoteRequest:
    """Returns the command for the device with its files; raises UsageError for options that are of use only here.

    `run`: the folder of the run there. `outputs`: the fields that name what is to be written.
    """
    placing = _Placing(run)
    written: dict[str, Path] = {}
    values: dict[str, object] = {}
    for each in changed(request):
        value = getattr(request, each.name)
        if each.name in outputs:
            if not value.absolute().parent.is_dir():
                raise UsageError(f"The folder of '{value}' does not exist.", f"Make it, or change {each.flag}.")
            # By name alone, in the command's working folder, so that its records contain no path of the device.
            written[f"out/{value.name}"] = value
            values[each.name] = value.name
        else:
            values[each.name] = (
                [_there(each, one, placing) for one in value] if each.many else _there(each, value, placing)
            )
    return RemoteRequest(arguments(type(request), values), placing.files, written, placing.names)


_PATHS_AS_TEXT = frozenset({"custom_ops"})
_SIGNS = {"subject": "@", "against": "@", "metric": ":"}


def _there(option: Option, value: object, placing: _Placing) -> object:
    if option.kind is Path or option.name in _PATHS_AS_TEXT:
        return placing.put(Path(str(value)), str(value)) if Path(str(value)).exists() else str(value)
    sign = _SIGNS.get(option.name)
    return placing.put_named(str(value), sign) if sign else value


def refuse_local(request: msgspec.Struct, fields: Mapping[str, str]) -> None:
    """Raises UsageError for options that cannot be met on another device; each has its next step."""
    for each in changed(request):
        if each.name in fields:
            raise UsageError(f"{each.flag} and --on exclude each other.", fields[each.name])


def files_beside(path: Path) -> tuple[Path, ...]:
    """Returns the files that a model consists of besides this one."""
    if path.suffix == ".xml":
        weights = path.with_suffix(".bin")
        return (weights,) if weights.is_file() else ()
    if path.suffix != ".onnx":
        return ()
    import onnx

    from edgeopt.graph.files.tensors import external_files

    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf raises its own exceptions; the cause is in the message
        raise ModelError(f"'{path}' is not an ONNX model.", f"Export it again. ({error})") from error
    return external_files(model, path)
