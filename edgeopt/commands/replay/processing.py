"""What a deployment profile does around its model: the files for that, from a bundle or from one exported file."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from edgeopt.bundle.deployment import Part, Processing
from edgeopt.bundle.processing.schema import FOLDER
from edgeopt.bundle.read import Bundle
from edgeopt.commands.replay.embedding import HINT, LARGEST_BYTES, packed, read_beside, unpacked
from edgeopt.errors import BundleError


def files_of(processing: Processing | None, bundle: Bundle | None, path: Path) -> dict[str, bytes]:
    """By their place in a bundle, as their digests say that they were; raises BundleError."""
    found: dict[str, bytes] = {}
    for name, part in _with_files(processing):
        if part.embedded:
            content = unpacked(part.embedded, f"The {name}processing", path)
        else:
            content = (bundle.folder / part.file).read_bytes() if bundle else _beside(path, part, name)
        if hashlib.sha256(content).hexdigest() != part.sha256:
            raise BundleError(
                f"The {name}processing in '{path}' was changed: its digest differs.",
                HINT,
            )
        found[_place(name)] = content
    return found


def _beside(path: Path, part: Part, name: str) -> bytes:
    if part.file != _place(name):
        raise BundleError(f"'{path}' names '{part.file}', and only {_place(name)} is read.", HINT)
    return read_beside(path.parent, part.file, path, LARGEST_BYTES, "processing")


def embedded(processing: Processing, files: dict[str, bytes]) -> Processing:
    """With the files inside, for a profile that is one file."""
    return _changed(processing, lambda name: {"file": "", "embedded": packed(files[_place(name)])})


def outside(processing: Processing) -> Processing:
    """With the files by their names, for a bundle."""
    return _changed(processing, lambda name: {"file": _place(name), "embedded": ""})


def _changed(processing: Processing, change: Callable[[str], dict[str, str]]) -> Processing:
    parts = {name: msgspec.structs.replace(part, **change(name)) for name, part in _with_files(processing)}
    return msgspec.structs.replace(processing, **parts)


def _with_files(processing: Processing | None) -> list[tuple[str, Part]]:
    parts = [] if processing is None else [("pre", processing.pre), ("post", processing.post)]
    return [(name, part) for name, part in parts if part is not None and part.is_file]


def _place(name: str) -> str:
    return f"{FOLDER}/{name}.onnx"
