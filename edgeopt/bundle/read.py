"""Opening a bundle: nothing of it is used before all of it has been checked."""

from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.bundle import manifest
from edgeopt.bundle.deployment import FILE, Deployment, read_deployment
from edgeopt.errors import BundleError

_HINT = "Copy the bundle again from where it came."
_MOST_READS = 20


@dataclass(frozen=True, slots=True)
class Bundle:
    folder: Path
    deployment: Deployment

    @property
    def model(self) -> Path:
        return self.folder / self.deployment.run.model

    def golden(self, name: str) -> list[dict[str, Array]]:
        """Golden arrays (`inputs`, `outputs` or `reference`), one dict a sample."""
        place = self.folder / "golden" / name
        if place.is_dir():
            return [self._arrays(file) for file in sorted(place.glob("*.npz"), key=lambda f: int(f.stem))]
        arrays = self._arrays(place.with_name(f"{name}.npz"))
        count = min((len(array) for array in arrays.values()), default=0)
        return [{key: np.asarray(array[k]) for key, array in arrays.items()} for k in range(count)]

    def _arrays(self, file: Path) -> dict[str, Array]:
        try:
            # Opened here: `np.load` leaves the file open when it is no archive.
            with file.open("rb") as opened, np.load(opened, allow_pickle=False) as archive:
                return {key: archive[key] for key in archive.files}
        except (OSError, ValueError, EOFError, BadZipFile) as error:
            name = file.relative_to(self.folder).as_posix()
            raise BundleError(
                f"{name} of the bundle '{self.folder.name}' cannot be read: {error}.", _HINT
            ) from None


def is_bundle(path: Path) -> bool:
    """Whether a path looks like a bundle, sound or damaged."""
    return path.is_dir() and any((path / name).exists() for name in (FILE, manifest.FILE))


def read_bundle(path: Path) -> Bundle:
    """The bundle in a folder, all digests checked; raises BundleError with the reason it is refused."""
    if not path.exists():
        raise BundleError(f"There is no bundle at '{path}'.", "Check the path.")
    if not path.is_dir():
        raise BundleError(
            f"'{path}' is a file; a bundle is a folder.", "Give the folder that 'edgeopt optimize' wrote."
        )
    for _ in range(_MOST_READS):
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
    raise BundleError(f"The bundle '{path.name}' was replaced again and again while it was read.", "Try again.")


def _read(path: Path) -> Bundle:
    listed = manifest.check_manifest(path)
    deployment = read_deployment(path / FILE)
    if deployment.run.model not in listed.files:
        raise BundleError(
            f"The bundle '{path.name}' is to run '{deployment.run.model}', which its manifest does not list.",
            _HINT,
        )
    return Bundle(path, deployment)


def _identity(path: Path) -> tuple[int, int]:
    """Tells a folder from another in its place: a rename moves the second number where the first is used again."""
    try:
        found = path.stat()
    except FileNotFoundError:
        raise BundleError(f"There is no bundle at '{path}'.", "Check the path.") from None
    return found.st_ino, found.st_ctime_ns
