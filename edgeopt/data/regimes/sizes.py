"""Other sizes for the dimensions that a model leaves open: the shortest that there can be, and long ones."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from edgeopt.backends.base import Array, TensorInfo

ROWS = 2
"""The size instead of one, which reveals rewrites that are right for one row only."""
TIMES = 2
MOST_ELEMENTS = 1 << 22

Sample = Mapping[str, Array]


def shortest(inputs: Sequence[TensorInfo], sample: Sample) -> Iterator[dict[str, Array]]:
    """Every open dimension at 1; nothing if there are none, or all are 1 already."""
    yield from _resized(inputs, sample, lambda size: min(size, 1))


def longest(inputs: Sequence[TensorInfo], sample: Sample) -> Iterator[dict[str, Array]]:
    """Twice as long as the ordinary sample."""
    yield from _resized(inputs, sample, lambda size: size if size == 1 else size * TIMES)


def several_rows(inputs: Sequence[TensorInfo], sample: Sample) -> Iterator[dict[str, Array]]:
    """More than one of what there is one of."""
    yield from _resized(inputs, sample, lambda size: ROWS if size == 1 else size)


def no_rows(inputs: Sequence[TensorInfo], sample: Sample) -> Iterator[dict[str, Array]]:
    """Nothing along the open first dimension."""
    rows = {info.shape[0] for info in inputs if info.shape and isinstance(info.shape[0], str)}
    yield from _resized(inputs, sample, lambda size: size, dict.fromkeys(filter(_is_name, rows), 0))


def empty(inputs: Sequence[TensorInfo], sample: Sample) -> Iterator[dict[str, Array]]:
    """Nothing along every open dimension."""
    yield from _resized(inputs, sample, lambda _: 0)


def one_empty(inputs: Sequence[TensorInfo], sample: Sample) -> Iterator[dict[str, Array]]:
    """Nothing along each open dimension alone; a model can fail where all are empty, and run where one is."""
    dims = [(info.name, axis, dim) for info in inputs for axis, dim in enumerate(info.shape)]
    for name in dict.fromkeys(dim for _, _, dim in dims if _is_name(dim)):
        yield from _resized(inputs, sample, lambda size: size, {name: 0})
    unnamed = [(name, axis) for name, axis, dim in dims if not isinstance(dim, str) and (dim is None or dim < 0)]
    # Dimensions without a name may be one: a batch, say, that stands first in all inputs.
    together = [[one for one in unnamed if one[1] == axis] for axis in dict.fromkeys(axis for _, axis in unnamed)]
    for group in (*together, *([one] for one in unnamed)):
        yield {**sample, **{name: sample[name].take(np.arange(0), axis) for name, axis in group}}


def _is_name(size: object) -> bool:
    return isinstance(size, str) and "+" not in size


def _resized(
    inputs: Sequence[TensorInfo],
    sample: Sample,
    size_of: Callable[[int], int],
    fixed: Mapping[object, int] = MappingProxyType({}),
) -> Iterator[dict[str, Array]]:
    """The values repeated or cut; an open dimension that several inputs name is the same in all of them."""
    sizes = {
        str(name): fixed.get(name, size_of(size))
        for info in inputs
        for name, size in zip(info.shape, sample[info.name].shape, strict=False)
        if _is_name(name)
    }
    made = {info.name: _one(info, sample[info.name], sizes, size_of) for info in inputs if info.name in sample}
    same = all(array.shape == sample[name].shape for name, array in made.items())
    too_large = any(array.size > MOST_ELEMENTS for array in made.values())
    if not same and not too_large:
        yield {**sample, **made}


def _one(info: TensorInfo, array: Array, sizes: Mapping[str, int], size_of: Callable[[int], int]) -> Array:
    for axis, (name, size) in enumerate(zip(info.shape, array.shape, strict=False)):
        wanted = size if isinstance(name, int) and name >= 0 else _wanted(name, size, sizes, size_of)
        if wanted != size and size:
            array = array.take(np.arange(wanted) % size, axis)
    return np.asarray(array, order="C")


def _wanted(name: object, size: int, sizes: Mapping[str, int], size_of: Callable[[int], int]) -> int:
    if not isinstance(name, str):
        return size_of(size)
    parts = [part.strip() for part in name.split("+")]  # `past_sequence + 1`
    if all(part.isdecimal() or part in sizes for part in parts):
        return sum(int(part) if part.isdecimal() else sizes[part] for part in parts)
    return size_of(size)
