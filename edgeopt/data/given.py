"""The data that Python code gives, as the file or folder that all else reads."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from edgeopt.backends.base import Array
from edgeopt.data.samples import from_feeds, write_archive

Data = str | Path | Mapping[str, Array] | Iterable[Mapping[str, Array]]
"""A file or a folder; arrays by input name, samples along the first axis; or any iterable of feeds."""


def as_file(data: Data | None, folder: Path) -> Path | None:
    """Where it is; what is not on disk yet is written into the folder."""
    if data is None or isinstance(data, str | Path):
        return None if data is None else Path(data)
    file = folder / "data.npz"
    write_archive(file, data if isinstance(data, Mapping) else from_feeds(data))
    return file
