"""Other sizes for the dimensions that a model leaves open: the shortest that there can be, and long ones."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from edgeopt.backends.base import Array, TensorInfo

ROWS = 2
"""The size instead of one, which reveals rewrites that are right for one row only."""
TIMES = 2
MOST_ELEMENTS = 1 << 22

Sample = Mapping[str, Array]


def shortest(inputs: Sequence[TensorInfo], sample: Sample) -> dict[str, Array] | None:
    """Every open dimension at 1; None if there are none, or all are 1 already."""
    return _resized(inputs, sample, lambda size: min(size, 1))


def longest(inputs: Sequence[TensorInfo], sample: Sample) -> dict[str, Array] | None:
    """Twice as long as the ordinary sample."""
    return _resized(inputs, sample, lambda size: size if size == 1 else size * TIMES)


def several_rows(inputs: Sequence[TensorInfo], sample: Sample) -> dict[str, Array] | None:
    """More than one of what there is one of."""
    return _resized(inputs, sample, lambda size: ROWS if size == 1 else size)


def no_rows(inputs: Sequence[TensorInfo], sample: Sample) -> dict[str, Array] | None:
    """Nothing along the open first dimension."""
    rows = {info.shape[0] for info in inputs if info.shape and isinstance(info.shape[0], str)}
    return _resized(inputs, sample, lambda size: size, dict.fromkeys(filter(_is_name, rows), 0))


def empty(inputs: Sequence[TensorInfo], sample: Sample) -> dict[str, Array] | None:
    """Nothing along every open dimension."""
    return _resized(inputs, sample, lambda _: 0)


def _is_name(size: object) -> bool:
    return isinstance(size, str) and "+" not in size


def _resized(
    inputs: Sequence[TensorInfo],
    sample: Sample,
    size_of: Callable[[int], int],
    fixed: Mapping[object, int] = MappingProxyType({}),
) -> dict[str, Array] | None:
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
    return None if same or too_large else {**sample, **made}


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
