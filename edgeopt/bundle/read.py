"""Opening a bundle: nothing of it is used before all of it has been checked."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile, ZipFile

import numpy as np

from edgeopt.bundle import manifest
from edgeopt.bundle.archive import OpenedArchive, holds, opened
from edgeopt.bundle.deployment import ENCODER, FILE, SUFFIX, Deployment, read_deployment
from edgeopt.bundle.processing.schema import FOLDER
from edgeopt.errors import BundleError

if TYPE_CHECKING:
    from edgeopt.backends.base import Array, Options

# In the names of such options, and in the keys that `entries` and `load_config` hold.
_WORDS = ("_dir", "path", "folder", "directory", "librar", "plugin", "file_name")
_HINT = "Copy the bundle again from its source."
_MAX_READS = 20


def place_named(options: "Options") -> str | None:
    """The first option that names a place: by it a bundle could have what lies there read, written or run."""
    for name, value in options.items():
        if not isinstance(value, str) or not value:
            continue
        text = f"{name}={value}".lower()
        if "/" in value or "\\" in value or any(word in text for word in _WORDS):
            return name
    return None


# What zipfile and numpy raise for what are no sound arrays.
_UNREADABLE = (OSError, ValueError, EOFError, MemoryError, NotImplementedError, RuntimeError, BadZipFile)


@dataclass(frozen=True, slots=True)
class Bundle:
    """A checked bundle. One that is a single file lies unpacked in `folder` as long as this is held."""

    folder: Path
    deployment: Deployment
    held: OpenedArchive | None = field(default=None, repr=False, compare=False)

    @property
    def model(self) -> Path:
        return self.folder / self.deployment.run.model

    @property
    def encoder(self) -> Path | None:
        """Returns the folder with the bundle of the encoder, or None if there is none."""
        found = self.folder / ENCODER
        return found if found.is_dir() else None

    def golden(self, name: str) -> "list[dict[str, Array]]":
        """Golden arrays (`inputs`, `outputs` or `reference`), one dict a sample."""
        place = self.folder / "golden" / name
        if place.is_dir():
            files = [file for file in place.glob("*.npz") if file.stem.isdecimal()]
            return [self._arrays(file) for file in sorted(files, key=lambda f: int(f.stem))]
        arrays = self._arrays(place.with_name(f"{name}.npz"))
        if any(array.ndim == 0 for array in arrays.values()):
            raise BundleError(
                f"golden/{name}.npz of the bundle '{self.folder.name}' holds an array without samples.", _HINT
            )
        count = min((len(array) for array in arrays.values()), default=0)
        return [{key: np.asarray(array[k]) for key, array in arrays.items()} for k in range(count)]

    def has_golden(self, name: str) -> bool:
        """Whether there are such arrays: those of processing are not in every bundle."""
        place = self.folder / "golden" / name
        return place.is_dir() or place.with_name(f"{name}.npz").is_file()

    def _arrays(self, file: Path) -> "dict[str, Array]":
        try:
            # Opened here: `np.load` leaves the file open when it is no archive.
            with file.open("rb") as stream, ZipFile(stream) as contents:
                # Stored as they are, arrays cannot be more than their file: what is packed tighter may be a bomb.
                if sum(info.file_size for info in contents.infolist()) > file.stat().st_size:
                    raise ValueError("its arrays are compressed or have a wrong size")
                stream.seek(0)
                with np.load(stream, allow_pickle=False) as archive:
                    return {key: np.asarray(archive[key]) for key in archive.files}
        except _UNREADABLE as error:
            name = file.relative_to(self.folder).as_posix()
            raise BundleError(
                f"{name} of the bundle '{self.folder.name}' cannot be read: {error}.", _HINT
            ) from None


def is_bundle(path: Path) -> bool:
    """Whether a path looks like a bundle, sound or damaged: a folder, or the same as one file."""
    if path.is_dir():
        return any((path / name).exists() for name in (FILE, manifest.FILE))
    return path.is_file() and (path.suffix == SUFFIX or holds(path, (FILE, manifest.FILE)))


def read_bundle(path: Path) -> Bundle:
    """The bundle in a folder or a file, all digests checked; raises BundleError with the reason it is refused.

    This is the one place where a single file becomes a folder: hold the bundle, not only a path inside it.
    """
    if not path.exists():
        raise BundleError(f"There is no bundle at '{path}'.", "Check the path.")
    if path.is_file():
        if not is_bundle(path):
            raise BundleError(
                f"'{path}' is not a bundle.", "Give a bundle written by 'edgeopt optimize': a folder or a file."
            )
        return _from_file(path)
    if not path.is_dir():
        raise BundleError(f"'{path}' is neither a folder nor a file.", "Give a bundle that edgeopt wrote.")
    for _ in range(_MAX_READS):
        before = _identity(path)
        try:
            found = _read(path)
        except (BundleError, FileNotFoundError):
            # A manifest of the old bundle and a file of the new one: not damage, it was replaced meanwhile.
            if _identity(path) == before:
                raise
        else:
            if _identity(path) == before:
                return found
    raise BundleError(f"The bundle '{path.name}' kept changing while it was read.", "Try again.")


def _from_file(path: Path) -> Bundle:
    held = opened(path)
    try:
        found = _read(held.folder)
    except BundleError as error:
        held.close()
        held.name_file_in(error)
        raise
    return Bundle(found.folder, found.deployment, held)


def _read(path: Path) -> Bundle:
    listed = manifest.check_manifest(path)
    deployment = read_deployment(path / FILE)
    if deployment.run.model not in listed.files:
        raise BundleError(
            f"The bundle '{path.name}' runs '{deployment.run.model}', which its manifest does not list.",
            _HINT,
        )
    place = place_named(deployment.run.options)
    if place is not None:
        raise BundleError(
            f"The bundle '{path.name}' has the runtime option '{place}', which names a path outside the bundle.",
            "Make the bundle again without that option.",
        )
    _check_processing(path, deployment, listed)
    found = Bundle(path, deployment)
    _check_encoder(found)
    return found


def _check_encoder(bundle: Bundle) -> None:
    """Raises BundleError if the encoder does not compute the inputs of the decoder."""
    if bundle.encoder is None:
        return
    made = {each.name for each in read_deployment(bundle.encoder / FILE).outputs}
    given = bundle.deployment.cache.given if bundle.deployment.cache is not None else []
    missing = next((name for name in given if name not in made), None)
    if missing is not None or not given:
        reason = f"does not compute '{missing}'" if given else "computes no input of the model"
        raise BundleError(
            f"The encoder in the bundle '{bundle.folder.name}' {reason}.",
            "Put the encoder of the same model there.",
        )


def _check_processing(path: Path, deployment: Deployment, listed: manifest.Manifest) -> None:
    """Raises BundleError if a file of the processing is outside its folder, unlisted, or has another digest."""
    processing = deployment.processing
    _check_names(path, deployment)
    for part in (processing.pre, processing.post) if processing is not None else ():
        if part is None or not part.is_file:
            continue
        entry = listed.files.get(part.file)
        if part.embedded or entry is None or not part.file.startswith(f"{FOLDER}/"):
            raise BundleError(
                f"The bundle '{path.name}' processes with '{part.file or 'an embedded file'}', which is not "
                f"in its folder {FOLDER}/ or not in its manifest.",
                _HINT,
            )
        if entry.sha256 != part.sha256:
            raise BundleError(
                f"The bundle '{path.name}' processes with '{part.file}', whose digest differs from {FILE}.",
                _HINT,
            )


def _check_names(path: Path, deployment: Deployment) -> None:
    """Raises BundleError if the preprocessing makes, or the postprocessing takes, a tensor not of the model."""
    processing = deployment.processing
    if processing is None:
        return
    made = [each.name for each in processing.pre.outputs] if processing.pre is not None else []
    taken = [each.name for each in processing.post.inputs] if processing.post is not None else []
    inputs, outputs = {each.name for each in deployment.inputs}, {each.name for each in deployment.outputs}
    odd = next((name for name in made if name not in inputs), None)
    odd = odd or next((name for name in taken if name not in outputs), None)
    if odd is not None:
        raise BundleError(
            f"The processing of the bundle '{path.name}' names '{odd}', which is not a tensor of its model.", _HINT
        )


def _identity(path: Path) -> tuple[int, int]:
    """Tells a folder from another in its place: a rename moves the second number where the first is used again."""
    try:
        found = path.stat()
    except FileNotFoundError:
        raise BundleError(f"There is no bundle at '{path}'.", "Check the path.") from None
    return found.st_ino, found.st_ctime_ns
