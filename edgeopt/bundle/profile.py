"""A deployment profile with all that a replay needs: from a bundle, its `deployment.toml`, or an exported file."""

import base64
import binascii
import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from edgeopt.bundle import manifest
from edgeopt.bundle.deployment import FILE, CalibrationRecord, Deployment, Part, Processing, read_deployment
from edgeopt.bundle.processing.schema import FOLDER
from edgeopt.bundle.read import Bundle, is_bundle, place_named, read_bundle
from edgeopt.bundle.write import MODEL_FOLDER, RECORD
from edgeopt.errors import BundleError

_LARGEST_EMBEDDED_BYTES = 64 << 20
_HINT = "Copy the bundle or the exported profile again from its source."


def packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode()


def unpacked(text: str, what: str, path: Path) -> bytes:
    """Raises BundleError with the fault; a foreign bundle must not fill the memory."""
    try:
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(base64.b64decode(text, validate=True), _LARGEST_EMBEDDED_BYTES)
    except (zlib.error, binascii.Error, ValueError) as error:
        raise BundleError(f"{what} in '{path}' is damaged: {error}.", _HINT) from None
    if not unpacker.eof:
        raise BundleError(f"{what} in '{path}' is truncated or too large.", _HINT)
    return content


def _read_beside(folder: Path, name: str, path: Path, max_bytes: int, too_large_for: str) -> bytes:
    """A file that a profile names, of the bundle or next to a profile that lies alone."""
    file = folder / name
    try:
        if file.stat().st_size > max_bytes:
            raise BundleError(f"{file} is too large for {too_large_for}.", _HINT)
        return file.read_bytes()
    except OSError:
        raise BundleError(
            f"'{path}' needs the file {name} next to it, which is missing.",
            "Give the whole bundle, or export it to one file: edgeopt profile export BUNDLE -o NAME.toml",
        ) from None


def _files_of(processing: Processing | None, bundle: Bundle | None, path: Path) -> dict[str, bytes]:
    """Returns the files of the processing by place in a bundle; raises BundleError if a digest differs."""
    found: dict[str, bytes] = {}
    for name, part in _with_files(processing):
        if part.embedded:
            content = unpacked(part.embedded, f"The {name}processing", path)
        else:
            content = (bundle.folder / part.file).read_bytes() if bundle else _beside(path, part, name)
        if hashlib.sha256(content).hexdigest() != part.sha256:
            raise BundleError(
                f"The {name}processing in '{path}' was changed: its digest differs.",
                _HINT,
            )
        found[_place(name)] = content
    return found


def _beside(path: Path, part: Part, name: str) -> bytes:
    if part.file != _place(name):
        raise BundleError(f"'{path}' names '{part.file}', and only {_place(name)} is read.", _HINT)
    return _read_beside(path.parent, part.file, path, _LARGEST_EMBEDDED_BYTES, "processing")


def embedded(processing: Processing, files: dict[str, bytes]) -> Processing:
    """Returns the processing with its files embedded, for a profile that is one file."""
    return _changed(processing, lambda name: {"file": "", "embedded": packed(files[_place(name)])})


def outside(processing: Processing) -> Processing:
    """Returns the processing with its files by name, for a bundle."""
    return _changed(processing, lambda name: {"file": _place(name), "embedded": ""})


def _changed(processing: Processing, change: Callable[[str], dict[str, str]]) -> Processing:
    parts = {name: msgspec.structs.replace(part, **change(name)) for name, part in _with_files(processing)}
    return msgspec.structs.replace(processing, **parts)


def _with_files(processing: Processing | None) -> list[tuple[str, Part]]:
    parts = [] if processing is None else [("pre", processing.pre), ("post", processing.post)]
    return [(name, part) for name, part in parts if part is not None and part.is_file]


def _place(name: str) -> str:
    return f"{FOLDER}/{name}.onnx"


_LARGEST_RECORD_BYTES = 2 << 30
_RECORD_NAME = "The calibration result"


@dataclass(frozen=True, slots=True)
class Profile:
    path: Path
    deployment: Deployment
    record: bytes | None
    """Calibration results; None if nothing was quantized."""
    bundle: Bundle | None
    """The checked bundle that holds the profile, with golden samples and evidence; None for a profile alone."""
    processing: dict[str, bytes] = field(default_factory=dict)
    """The files of what is done before and after the model, by their place in a bundle."""


def read_profile(path: Path) -> Profile:
    """Raises BundleError with what is wrong or missing."""
    inside = path.name == FILE and (path.parent / manifest.FILE).exists()
    if inside or is_bundle(path):
        bundle = read_bundle(path.parent if inside else path)
        deployment = bundle.deployment
        return _profile(path, deployment, bundle)
    if not path.is_file():
        raise BundleError(f"There is no bundle or deployment profile at '{path}'.", "Check the path.")
    if path.suffix != ".toml":
        raise BundleError(
            f"'{path}' is neither a bundle nor a deployment profile.",
            f"Give a bundle, its {FILE}, or what `edgeopt profile export` wrote.",
        )
    deployment = read_deployment(path)
    place = place_named(deployment.run.options)
    if place is not None:
        raise BundleError(
            f"The deployment profile '{path.name}' has the runtime option '{place}', which names a path "
            "on a device.",
            "Make the bundle again without that option.",
        )
    return _profile(path, deployment, None)


def _profile(path: Path, deployment: Deployment, bundle: Bundle | None) -> Profile:
    folder = path.parent if bundle is None else bundle.folder
    record = _checked(deployment.quantization, folder, path)
    return Profile(path, deployment, record, bundle, _files_of(deployment.processing, bundle, path))


def model_place(deployment: Deployment) -> Path:
    """Returns the model's place within a bundle; raises BundleError if it is not in the folder for models."""
    parts = deployment.run.model.split("/")
    if (
        len(parts) < 2
        or parts[0] != MODEL_FOLDER
        or any(p in {"", ".", ".."} or "\\" in p or "\0" in p for p in parts)
    ):
        raise BundleError(
            f"The deployment profile has its model at '{deployment.run.model}', which is not in {MODEL_FOLDER}/.",
            _HINT,
        )
    return Path(*parts)


def _checked(record: CalibrationRecord | None, folder: Path, path: Path) -> bytes | None:
    """The record of the quantization, as its digest says that it was."""
    if record is None:
        return None
    if not record.embedded and record.file != RECORD:
        raise BundleError(
            f"The deployment profile '{path}' names '{record.file}', and only {RECORD} is read.", _HINT
        )
    if record.embedded:
        content = unpacked(record.embedded, _RECORD_NAME, path)
    else:
        content = _read_beside(folder, RECORD, path, _LARGEST_RECORD_BYTES, "a record of a quantization")
    if hashlib.sha256(content).hexdigest() != record.sha256:
        raise BundleError(f"{_RECORD_NAME} in '{path}' was changed: its digest differs.", _HINT)
    return content
