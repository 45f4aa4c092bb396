"""Opening a bundle: nothing of it is used before all of it has been checked."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.bundle import manifest
from edgeopt.bundle.deployment import FILE, Deployment, read_deployment
from edgeopt.errors import BundleError


@dataclass(frozen=True, slots=True)
class Bundle:
    folder: Path
    deployment: Deployment

    @property
    def model(self) -> Path:
        return self.folder / self.deployment.run.model

    def golden(self, name: str) -> list[dict[str, Array]]:
        """Golden arrays (`inputs`, `outputs` or `reference`), one dict a sample."""
        with np.load(self.folder / "golden" / f"{name}.npz", allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        count = len(next(iter(arrays.values())))
        return [{key: np.asarray(array[k]) for key, array in arrays.items()} for k in range(count)]


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
    listed = manifest.check_manifest(path)
    deployment = read_deployment(path / FILE)
    if deployment.run.model not in listed.files:
        raise BundleError(
            f"The bundle '{path.name}' is to run '{deployment.run.model}', which its manifest does not list.",
            "Copy the bundle again from where it came.",
        )
    return Bundle(path, deployment)
