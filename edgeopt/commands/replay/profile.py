"""A deployment profile with all that a replay needs: from a bundle, its `deployment.toml`, or an exported file."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from edgeopt.bundle import manifest
from edgeopt.bundle.deployment import FILE, Deployment, Record, read_deployment
from edgeopt.bundle.read import Bundle, is_bundle, place_named, read_bundle
from edgeopt.bundle.write import MODEL_FOLDER, RECORD
from edgeopt.commands.replay.embedding import HINT, read_beside, unpacked
from edgeopt.commands.replay.processing import files_of
from edgeopt.errors import BundleError

_LARGEST_BYTES = 2 << 30
_WHAT = "The calibration result"


@dataclass(frozen=True, slots=True)
class Profile:
    path: Path
    deployment: Deployment
    record: bytes | None
    """What calibration found; None where nothing was quantized."""
    bundle: Bundle | None
    """What it lies in, checked; it has golden samples and evidence besides."""
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
    return Profile(path, deployment, record, bundle, files_of(deployment.processing, bundle, path))


def model_place(deployment: Deployment) -> Path:
    """Where the model lies within a bundle; BundleError where that is not in its folder for models."""
    parts = deployment.run.model.split("/")
    if (
        len(parts) < 2
        or parts[0] != MODEL_FOLDER
        or any(p in {"", ".", ".."} or "\\" in p or "\0" in p for p in parts)
    ):
        raise BundleError(
            f"The deployment profile has its model at '{deployment.run.model}', which is not in {MODEL_FOLDER}/.",
            HINT,
        )
    return Path(*parts)


def _checked(told: Record | None, folder: Path, path: Path) -> bytes | None:
    """The record of the quantization, as its digest says that it was."""
    if told is None:
        return None
    if not told.embedded and told.file != RECORD:
        raise BundleError(f"The deployment profile '{path}' names '{told.file}', and only {RECORD} is read.", HINT)
    if told.embedded:
        content = unpacked(told.embedded, _WHAT, path)
    else:
        content = read_beside(folder, RECORD, path, _LARGEST_BYTES, "a record of a quantization")
    if hashlib.sha256(content).hexdigest() != told.sha256:
        raise BundleError(f"{_WHAT} in '{path}' was changed: its digest differs.", HINT)
    return content
