"""The user's data: samples for a model's inputs, checked before the long work starts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from edgeopt.backends.base import Array, TensorInfo
from edgeopt.errors import DataError

HOW = (
    "Data is an .npz file (or a folder of .npy files) with one array per model input, "
    "samples along the first axis."
)


@dataclass(frozen=True, slots=True)
class Samples:
    """Arrays by input name, samples along the first axis; a sample may leave out a batch axis of 1."""

    arrays: Mapping[str, Array]
    ranks: Mapping[str, int]
    ignored: tuple[str, ...] = ()
    """Arrays in the data that are no input of the model (labels, say)."""

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def feeds(self, index: int) -> dict[str, Array]:
        """The inputs of one run."""
        return {name: self._one(name, index) for name in self.arrays}

    def _one(self, name: str, index: int) -> Array:
        array = self.arrays[name]
        one = array[index]
        # array[index] of a 1-d array is a numpy scalar, which runtimes reject.
        return np.asarray(one[None] if array.ndim == self.ranks[name] else one)

    def shapes(self) -> dict[str, list[int]]:
        """The shape of each input in every run."""
        return {name: list(array.shape) for name, array in self.feeds(0).items()}

    def __getitem__(self, indices: range) -> "Samples":
        """Some of the samples, without copying them."""
        part = slice(indices.start, indices.stop)
        return Samples({n: a[part] for n, a in self.arrays.items()}, self.ranks, self.ignored)


def load_data(path: Path, inputs: tuple[TensorInfo, ...]) -> Samples:
    """The data in a file or folder, checked against the model's inputs; raises DataError."""
    return check_samples(_read(path), inputs, path.name)


def check_samples(arrays: Mapping[str, Array], inputs: tuple[TensorInfo, ...], what: str = "the data") -> Samples:
    """The arrays as samples of these inputs; raises DataError with one sentence for the first thing wrong."""
    names = [i.name for i in inputs]
    missing = [n for n in names if n not in arrays]
    if missing:
        raise DataError(
            f"{what} has no array for the model's input '{missing[0]}'; it has: {', '.join(arrays) or 'nothing'}.",
            f"The model's inputs are: {', '.join(names)}. {HOW}",
        )
    kept = {info.name: _checked(arrays[info.name], info, what) for info in inputs}
    counts = {n: len(a) for n, a in kept.items()}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{n}: {c}" for n, c in counts.items())
        raise DataError(f"The arrays in {what} hold different numbers of samples ({told}).", HOW)
    ignored = tuple(n for n in arrays if n not in kept)
    return Samples(kept, {i.name: len(i.shape) for i in inputs}, ignored)


def from_feeds(feeds: Iterable[Mapping[str, Array]]) -> dict[str, Array]:
    """Single runs' inputs, stacked into arrays with samples along the first axis."""
    runs = list(feeds)
    if not runs:
        raise DataError("The data holds no sample.", HOW)
    return {name: np.stack([np.asarray(run[name]) for run in runs]) for name in runs[0]}


def save_samples(samples: Samples, folder: Path) -> None:
    """Writes the samples as plain .npy files, which trials map into memory without copying."""
    folder.mkdir(parents=True, exist_ok=True)
    for position, array in enumerate(samples.arrays.values()):
        np.save(folder / f"{position}.npy", np.ascontiguousarray(array), allow_pickle=False)
    (folder / "names").write_text("\n".join(f"{samples.ranks[n]} {n}" for n in samples.arrays))


def open_samples(folder: Path) -> Samples:
    """The samples that `save_samples` wrote."""
    rows = [line.split(" ", 1) for line in (folder / "names").read_text().splitlines()]
    arrays = {name: np.load(folder / f"{k}.npy", mmap_mode="r") for k, (_, name) in enumerate(rows)}
    return Samples(arrays, {name: int(rank) for rank, name in rows})


def _read(path: Path) -> dict[str, Array]:
    if not path.exists():
        raise DataError(f"There is no data at '{path}'.", "Check the path given to --data.")
    if path.is_dir():
        files = sorted(path.glob("*.npy"))
        if not files:
            raise DataError(f"The folder '{path}' holds no .npy file.", HOW)
        return {file.stem: _read_array(file) for file in files}
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise DataError(f"'{path.name}' is a single array, not an archive of named arrays.", HOW)
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, BadZipFile, TypeError) as error:
        raise DataError(f"'{path.name}' cannot be read as data: {_first_line(error)}", HOW) from error


def _read_array(file: Path) -> Array:
    try:
        array: Array = np.load(file, allow_pickle=False, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"'{file}' cannot be read as an array: {_first_line(error)}", HOW) from error
    return array


def _checked(array: Array, info: TensorInfo, what: str) -> Array:
    rank = len(info.shape)
    name = f"The array '{info.name}' in {what}"
    if array.ndim not in (rank, rank + 1) or array.ndim == 0:
        raise DataError(
            f"{name} has {array.ndim} dimensions {list(array.shape)}; the input has {rank} {_shape(info)}, "
            f"so the array needs {rank + 1} (samples first){f', or {rank} where the batch is 1' if rank else ''}.",
            HOW,
        )
    if len(array) == 0:
        raise DataError(f"{name} holds no sample.", HOW)
    _check_sizes(array, info, name)
    if array.dtype.name != info.dtype:
        same_kind = array.dtype.kind in "iuf" and np.can_cast(array.dtype, info.dtype, "same_kind")
        if not same_kind:
            raise DataError(f"{name} is of type {array.dtype.name}; the input takes {info.dtype}.", HOW)
        array = array.astype(info.dtype)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = int(np.argmin(np.isfinite(array.reshape(len(array), -1)).all(axis=1)))
        raise DataError(f"{name} holds NaN or infinity (first in sample {bad}).", "Leave such samples out.")
    return array


def _check_sizes(array: Array, info: TensorInfo, name: str) -> None:
    """A fixed dimension of the input must be met by every sample."""
    one = array.shape[1:] if array.ndim == len(info.shape) + 1 else (1, *array.shape[1:])
    for want, got in zip(info.shape, one, strict=True):
        if isinstance(want, int) and want != got:
            raise DataError(f"{name} holds samples of shape {list(one)}; the input takes {_shape(info)}.", HOW)


def _shape(info: TensorInfo) -> str:
    return "[" + ", ".join("?" if d is None else str(d) for d in info.shape) + "]"


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
