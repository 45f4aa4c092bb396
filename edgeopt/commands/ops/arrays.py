"""Named arrays in a file; an `.npz` would spend half of a large case on checksums."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.errors import writing_to


def write(path: Path, arrays: Mapping[str, Array]) -> None:
    """The names first, then each array as numpy writes it."""
    with writing_to(path), path.open("wb") as file:
        np.save(file, np.array(list(arrays)))
        for array in arrays.values():
            np.save(file, array, allow_pickle=False)


def read(path: Path) -> dict[str, Array]:
    """What `write` has written."""
    with path.open("rb") as file:
        names = np.load(file, allow_pickle=False)
        return {str(name): np.load(file, allow_pickle=False) for name in names}
