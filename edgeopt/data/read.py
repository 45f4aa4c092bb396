"""Reads data from an .npz, a folder of .npy, or a folder of pictures."""

import zlib
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np

from edgeopt.backends.base import Array, TensorInfo
from edgeopt.data.samples import HOW, Samples, check_samples
from edgeopt.errors import DataError, OptionReference, error_text

if TYPE_CHECKING:
    from edgeopt.profiles.schema import Data

_CHANNELS = frozenset({1, 3, 4})


def load_data(path: Path, inputs: tuple[TensorInfo, ...], preparation: "Data | None" = None) -> Samples:
    """Reads the data in a file or folder, and checks it against the model's inputs; raises DataError.

    Pictures, and arrays of bytes that hold pictures, are prepared as a [data] table says.
    """
    # Trials, which read what was checked before, do without what these two need.
    from edgeopt.data.preparation import picture_files, prepare, read_pictures

    pictures = picture_files(path)
    if pictures:
        if preparation is None:
            raise unprepared(path)
        return check_samples(
            {_target(inputs, preparation): read_pictures(pictures, preparation)}, inputs, path.name
        )
    arrays = read_arrays(path)
    if preparation is not None:
        name = _target(inputs, preparation)
        pictures_of = _pictures_in(arrays[name]) if name in arrays else None
        if pictures_of is not None:
            arrays = {**arrays, name: prepare(pictures_of, preparation, f"the array '{name}' in {path.name}")}
    return check_samples(arrays, inputs, path.name)


def unprepared(path: Path) -> DataError:
    pre = OptionReference("pre", "FILE.toml")
    return DataError(
        f"The folder '{path}' holds pictures, but nothing says how to prepare them.",
        f"Write a [data] table into a file (see docs/profiles.md) and pass it: {pre}",
        [pre],
    )


def _target(inputs: tuple[TensorInfo, ...], preparation: "Data") -> str:
    """Returns the name of the input for pictures; raises DataError if it is unclear."""
    names = [info.name for info in inputs]
    if preparation.input in names:
        return preparation.input
    if preparation.input:
        raise DataError(
            f"The model has no input '{preparation.input}', which [data] in the profile names.",
            f"The model's inputs are: {', '.join(names)}.",
        )
    if len(names) == 1:
        return names[0]
    raise DataError(
        f"The model has {len(names)} inputs, but [data] in the profile does not name the one for pictures.",
        f'Write one of them there: input = "{names[0]}". The inputs are: {", ".join(names)}.',
    )


def _pictures_in(array: Array) -> Array | None:
    """Returns arrays of bytes as pictures with channels last; None for anything else.

    Floats count as already prepared.
    """
    if array.dtype != np.uint8 or array.ndim not in {3, 4}:
        return None
    if array.ndim == 3 or array.shape[-1] in _CHANNELS:
        return array
    return np.moveaxis(array, 1, -1) if array.shape[1] in _CHANNELS else None


def read_arrays(path: Path) -> dict[str, Array]:
    """Returns the arrays by name, not checked against any model; raises DataError."""
    if not path.exists():
        raise DataError(f"There is no data at '{path}'.", "Check its path.")
    if path.is_dir():
        files = sorted(path.glob("*.npy"))
        if not files:
            raise DataError(f"The folder '{path}' holds no .npy files and no pictures.", HOW)
        return {file.stem: _read_array(file) for file in files}
    try:
        # Opened here: numpy leaves a damaged archive open.
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise DataError(f"'{path.name}' is a single array, not an archive of named arrays.", HOW)
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error) as error:
        raise DataError(f"'{path.name}' cannot be read as data: {_why(error)}.", HOW) from error


def _read_array(file: Path) -> Array:
    try:
        array: Array = np.load(file, allow_pickle=False, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"'{file}' cannot be read as an array: {error_text(error)}", HOW) from error
    return array


def _why(error: BaseException) -> str:
    """Describes a reading error; numpy takes unknown files for pickles, and advises to open them unsafely."""
    reason = error_text(error).rstrip(".")
    return "it is not an .npz archive, or holds Python objects" if "pickle" in reason else reason
