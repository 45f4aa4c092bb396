"""Samples: arrays by input name, checked against the model's inputs; written and read back for trials."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from edgeopt.backends.base import Array, TensorInfo
from edgeopt.errors import DataError, error_text, writing_to

_SIZES = ".sizes.npy"

HOW = (
    "Data is an .npz file (or a folder of .npy files) with one array per model input, "
    "samples along the first axis; or a folder of pictures, with a profile that has a [data] table."
)


@dataclass(frozen=True, slots=True)
class Samples:
    """Arrays by input name, samples along the first axis; a sample may leave out a batch axis of 1."""

    arrays: Mapping[str, Array]
    ranks: Mapping[str, int]
    ignored: tuple[str, ...] = ()
    """Arrays in the data that are not inputs of the model, such as labels."""
    converted: tuple[str, ...] = ()
    """Sentences on whole numbers that are given for a floating-point input."""
    sizes: Mapping[str, Array] = field(default_factory=dict)
    """Shape of each sample, for inputs whose samples differ in size: the sample is that corner of its array."""

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values()))) if self.arrays else 1  # a run without inputs

    def feeds(self, index: int) -> dict[str, Array]:
        """Returns the inputs of one run."""
        return {name: self._one(name, index) for name in self.arrays}

    def _one(self, name: str, index: int) -> Array:
        array = self.arrays[name]
        one = array[index]
        if name in self.sizes:
            corner = tuple(slice(size) for size in self.sizes[name][index].tolist())
            return np.ascontiguousarray(one[corner])
        # array[index] of a 1-d array is a numpy scalar, which runtimes reject.
        return np.asarray(one[None] if array.ndim == self.ranks[name] else one)

    def shapes(self) -> dict[str, list[int]]:
        """Returns the shape of each input in every run, or in the first if samples differ."""
        return {name: list(array.shape) for name, array in self.feeds(0).items()}

    def __getitem__(self, indices: range) -> "Samples":
        """Returns some of the samples, without copying them."""
        part = slice(indices.start, indices.stop)
        arrays, sizes = ({n: a[part] for n, a in these.items()} for these in (self.arrays, self.sizes))
        return Samples(arrays, self.ranks, self.ignored, self.converted, sizes)

    def taken(self, places: NDArray[np.intp]) -> "Samples":
        """Returns the samples at these places, in this order, as copies."""
        arrays, sizes = ({n: a[places] for n, a in these.items()} for these in (self.arrays, self.sizes))
        return Samples(arrays, self.ranks, self.ignored, self.converted, sizes)

    @property
    def sample_bytes(self) -> int:
        return sum(array.nbytes // max(1, len(array)) for array in self.arrays.values())


def check_samples(arrays: Mapping[str, Array], inputs: tuple[TensorInfo, ...], what: str = "the data") -> Samples:
    """Returns the arrays as samples of these inputs; raises DataError for the first problem."""
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
        lengths = ", ".join(f"{n}: {c}" for n, c in counts.items())
        raise DataError(f"The arrays in {what} hold different numbers of samples ({lengths}).", HOW)
    ignored = tuple(n for n in arrays if n not in kept)
    ranks = {i.name: _rank(arrays[i.name], i) for i in inputs}
    return Samples(kept, ranks, ignored, _conversions(arrays, inputs, what))


def _conversions(arrays: Mapping[str, Array], inputs: tuple[TensorInfo, ...], what: str) -> tuple[str, ...]:
    """Returns sentences on whole numbers given for floats, which may be pictures that are not scaled."""
    return tuple(
        f"The array '{info.name}' in {what} holds {arrays[info.name].dtype.name} for an input of {info.dtype}: "
        "its values are converted, not scaled."
        for info in inputs
        if arrays[info.name].dtype.kind in "iu" and "float" in info.dtype
    )


def from_feeds(feeds: Iterable[Mapping[str, Array]]) -> dict[str, Array]:
    """Stacks the inputs of single runs into arrays with samples along the first axis."""
    runs = _listed(feeds)
    if not runs:
        raise DataError("The data contains no samples.", HOW)
    return {name: _stacked(name, runs) for name in runs[0]}


def _listed(feeds: Iterable[Mapping[str, Array]]) -> list[Mapping[str, Array]]:
    """Returns the items of the user's iterable; raises DataError if it fails or yields anything but dicts."""
    if not isinstance(feeds, Iterable):
        raise DataError(f"The data is of type {type(feeds).__name__}, which yields no samples.", HOW)
    runs: list[Mapping[str, Array]] = []
    try:
        for run in feeds:
            if not isinstance(run, Mapping) or not all(isinstance(name, str) for name in run):
                kind = "a dict with other keys" if isinstance(run, Mapping) else f"of type {type(run).__name__}"
                raise DataError(
                    f"Sample {len(runs)} of the data is {kind}, not a dict from the names of inputs to arrays.",
                    'Yield one for each sample, such as {"input": array}.',
                )
            runs.append(run)
    except DataError:
        raise
    except Exception as error:  # whatever the user's code raises
        what = f"The data failed at sample {len(runs)} with {type(error).__name__}: {error_text(error)}."
        raise DataError(what, HOW) from error
    return runs


def _stacked(name: str, runs: list[Mapping[str, Array]]) -> Array:
    lacking = next((k for k, run in enumerate(runs) if name not in run), None)
    if lacking is not None:
        raise DataError(f"Sample {lacking} of the data lacks the input '{name}', which sample 0 has.", HOW)
    arrays = [_array(name, k, run[name]) for k, run in enumerate(runs)]
    odd = next((k for k, array in enumerate(arrays) if array.shape != arrays[0].shape), None)
    if odd is not None:
        shapes = f"{list(arrays[0].shape)} in sample 0 and {list(arrays[odd].shape)} in sample {odd}"
        raise DataError(f"The input '{name}' has the shape {shapes}.", "Give every sample the same shape.")
    return np.stack(arrays)


def _array(name: str, sample: int, value: object) -> Array:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise DataError(
            f"The input '{name}' of sample {sample} is not an array: {error_text(error)}", HOW
        ) from error
    if array.dtype.kind == "O" and not all(isinstance(one, str) for one in array.flat):
        kind = type(value).__name__
        raise DataError(f"The input '{name}' of sample {sample} is of type {kind}, not an array.", HOW)
    return array


def save_samples(samples: Samples, folder: Path) -> None:
    """Writes the samples as plain .npy files, which trials map into memory without copying."""
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for position, (name, array) in enumerate(samples.arrays.items()):
            np.save(folder / f"{position}.npy", np.ascontiguousarray(array), allow_pickle=False)
            if name in samples.sizes:
                np.save(folder / f"{position}{_SIZES}", samples.sizes[name], allow_pickle=False)
        rows = [f"{samples.ranks[name]} {name}" for name in samples.arrays]
        (folder / "names").write_text("\n".join(rows), encoding="utf-8")


def open_samples(folder: Path) -> Samples:
    """Opens the samples that `save_samples` wrote, mapped into memory."""
    text = (folder / "names").read_text(encoding="utf-8")
    rows = [line.split(" ", 1) for line in text.split("\n")] if text else []
    arrays = {name: np.load(folder / f"{k}.npy", mmap_mode="r") for k, (_, name) in enumerate(rows)}
    files = {name: folder / f"{k}{_SIZES}" for k, (_, name) in enumerate(rows)}
    sizes = {name: np.load(file) for name, file in files.items() if file.is_file()}
    return Samples(arrays, {name: int(rank) for rank, name in rows}, sizes=sizes)


def write_archive(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes an .npz; `np.savez` takes an input called "file" for its own argument, and stamps the time."""
    with writing_to(path), ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
                plain = np.asarray(array, np.str_) if array.dtype.kind == "O" else np.asarray(array)
                np.lib.format.write_array(file, plain, allow_pickle=False)


def _checked(array: Array, info: TensorInfo, what: str) -> Array:
    rank = _rank(array, info)
    name = f"The array '{info.name}' in {what}"
    if array.ndim not in (rank, rank + 1) or array.ndim == 0:
        raise DataError(
            f"{name} has {array.ndim} dimensions {list(array.shape)}; the input has {rank} {_shape(info)}, "
            f"so the array needs {rank + 1} (samples first){f', or {rank} where the batch is 1' if rank else ''}.",
            HOW,
        )
    if len(array) == 0:
        raise DataError(f"{name} contains no samples.", HOW)
    if info.rank_known:
        _check_sizes(array, info, name)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = int(np.argmin(np.isfinite(array.reshape(len(array), -1)).all(axis=1)))
        raise DataError(f"{name} holds NaN or infinity (first in sample {bad}).", "Remove these samples.")
    if array.dtype.name == info.dtype and array.dtype.isnative:
        return array
    return _cast(array, info.dtype, name)


def _rank(array: Array, info: TensorInfo) -> int:
    """Returns the dimensions of one run's input; those of the samples if the model does not define them."""
    return len(info.shape) if info.rank_known else max(array.ndim - 1, 0)


def _cast(array: Array, dtype: str, name: str) -> Array:
    """Returns the array in the input's type; raises DataError unless every value fits."""
    if dtype == "str":
        if array.dtype.kind == "U" or (array.dtype.kind == "O" and all(isinstance(t, str) for t in array.flat)):
            return array.astype(np.str_)
    elif array.dtype.kind in "iuf" and dtype in np.sctypeDict and np.can_cast(array.dtype, dtype, "same_kind"):
        with np.errstate(over="ignore"):
            cast = array.astype(dtype)
        if not np.isfinite(cast).all() or (array.dtype.kind in "iu" and not np.array_equal(cast, array)):
            raise DataError(f"{name} holds numbers that do not fit into {dtype}.", "Scale or clip them first.")
        return cast
    raise DataError(f"{name} is of type {array.dtype.name}; the input takes {dtype}.", HOW)


def _check_sizes(array: Array, info: TensorInfo, name: str) -> None:
    """Raises DataError unless every sample has the input's fixed dimensions."""
    one = array.shape[1:] if array.ndim == len(info.shape) + 1 else (1, *array.shape[1:])
    for want, got in zip(info.shape, one, strict=True):
        if isinstance(want, int) and want != got:
            raise DataError(f"{name} holds samples of shape {list(one)}; the input takes {_shape(info)}.", HOW)


def _shape(info: TensorInfo) -> str:
    return "[" + ", ".join("?" if d is None else str(d) for d in info.shape) + "]"


Data = str | Path | Mapping[str, Array] | Iterable[Mapping[str, Array]]
"""A file or folder of data, arrays by input name with samples along the first axis, or an iterable of feeds."""


def as_file(data: Data | None, folder: Path) -> Path | None:
    """Returns the path of the data; arrays and feeds are written into the folder first."""
    if data is None or isinstance(data, str | Path):
        return None if data is None else Path(data)
    file = folder / "data.npz"
    write_archive(file, data if isinstance(data, Mapping) else from_feeds(data))
    return file
