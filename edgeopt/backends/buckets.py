"""Buckets: sizes of open dimensions with a compiled program for each, and the choice of the bucket for feeds.

Inputs between two sizes are padded with zeros to the larger one, but only along dimensions for which the options
say what to cut off the outputs again: a search proved that this changes no result. All other inputs run in the
program with open shapes.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import NamedTuple

from edgeopt.backends.base import Array, Feeds, TensorInfo
from edgeopt.errors import UsageError
from edgeopt.graph.masks import used_length

Sizes = Mapping[str, Sequence[int]]
"""An option: sizes by dimension, or axes by `DIMENSION:TENSOR`."""
Shapes = dict[str, tuple[int, ...]]
Region = tuple[slice, ...]

MAX_PROGRAMS = 64
OPTIONS = ("buckets", "bucket_axes", "bucket_cuts", "bucket_fill", "bucket_mask")


class Dimension(NamedTuple):
    name: str
    sizes: tuple[int, ...]
    """Sizes in ascending order."""
    axes: dict[str, tuple[int, ...]]
    """Axes of each input that have the dimension, by input."""
    cuts: dict[str, tuple[int, ...]] | None
    """Axes of each output that follow the dimension; None if padding along it is not allowed."""
    fill_from: tuple[int, ...] = ()
    """The smallest size that is padded to each of `sizes`, because the program with open shapes runs smaller ones
    faster; empty: every size is padded."""

    @property
    def is_whole(self) -> bool:
        """Whether every size up to the largest runs in a program other than the one with open shapes."""
        if self.cuts is None:
            return len(self.sizes) == self.sizes[-1]
        before = (0, *self.sizes)
        return all(minimum <= low + 1 for minimum, low in zip(self.fill_from, before, strict=False))

    def size_of(self, shapes: Mapping[str, tuple[int, ...]]) -> int | None:
        """Returns the size in these shapes, or None if inputs have different sizes."""
        found = {shapes[name][axis] for name, axes in self.axes.items() for axis in axes}
        return found.pop() if len(found) == 1 else None

    def bucket_for(self, size: int) -> int | None:
        """Returns the smallest bucket that fits if padding is allowed, otherwise only one of exactly this size."""
        bucket = self.holding(size)
        if bucket is None or bucket == size:
            return bucket
        if self.cuts is None or (self.fill_from and size < self.fill_from[self.sizes.index(bucket)]):
            return None
        return bucket

    def holding(self, size: int) -> int | None:
        """Returns the smallest size that holds this one, or None above the largest and for zero."""
        return next((one for one in self.sizes if one >= size > 0), None)


class Fit(NamedTuple):
    """The program for feeds of some shapes, with the padding of the feeds and the cuts of the outputs."""

    shapes: Shapes
    regions: dict[str, Region]
    """The region of the feed within each padded input; empty if the shapes are the program's own."""
    cuts: dict[str, Region]
    """The region to keep of each output that padding enlarged."""


class Buckets(NamedTuple):
    shapes: Shapes
    """Shapes of all inputs; only axes that belong to no dimension have a meaning."""
    dimensions: tuple[Dimension, ...]
    mask: str = ""
    """The input whose zeros mark padding; a search has proved that masked positions have no effect."""

    @property
    def masked(self) -> Dimension | None:
        """The dimension along the second axis of the mask."""
        return next((d for d in self.dimensions if 1 in d.axes.get(self.mask, ())), None)

    @property
    def programs(self) -> tuple[Shapes, ...]:
        """The shapes of every program, the largest last."""
        chosen = product(*(d.sizes for d in self.dimensions))
        return tuple(
            self._with(dict(zip((d.name for d in self.dimensions), sizes, strict=True))) for sizes in chosen
        )

    @property
    def leave_gaps(self) -> bool:
        """Whether sizes between the smallest and the largest need the program with open shapes."""
        return not all(dimension.is_whole for dimension in self.dimensions)

    def fit(self, input_shapes: Mapping[str, tuple[int, ...]]) -> Fit | None:
        """Returns the program for these shapes, or None if none fits; the inputs and their ranks must be valid."""
        buckets: dict[str, int] = {}
        sizes: dict[str, int] = {}
        for dimension in self.dimensions:
            size = dimension.size_of(input_shapes)
            bucket = None if size is None else dimension.bucket_for(size)
            if size is None or bucket is None:
                return None
            buckets[dimension.name], sizes[dimension.name] = bucket, size
        own = self._with(sizes)
        if any(input_shapes[name] != shape for name, shape in own.items()):
            return None
        shapes = self._with(buckets)
        padded = {name: _corner(own[name]) for name, shape in shapes.items() if shape != own[name]}
        return Fit(shapes, padded, self._cuts(buckets, sizes) if padded else {})

    def _with(self, sizes: Mapping[str, int]) -> Shapes:
        shapes = {name: list(shape) for name, shape in self.shapes.items()}
        for dimension in self.dimensions:
            for name, axes in dimension.axes.items():
                for axis in axes:
                    shapes[name][axis] = sizes[dimension.name]
        return {name: tuple(shape) for name, shape in shapes.items()}

    def _cuts(self, buckets: Mapping[str, int], sizes: Mapping[str, int]) -> dict[str, Region]:
        kept: dict[str, dict[int, int]] = {}
        for dimension in self.dimensions:
            size = sizes[dimension.name]
            for name, axes in (dimension.cuts or {}).items() if size != buckets[dimension.name] else ():
                for axis in axes:
                    kept.setdefault(name, {})[axis] = size
        return {name: tuple(slice(by.get(axis)) for axis in range(max(by) + 1)) for name, by in kept.items()}


def read_buckets(
    shapes: Mapping[str, Sequence[int]],
    buckets: Sizes,
    axes: Sizes,
    cuts: Sizes,
    inputs: tuple[TensorInfo, ...],
    masks: Sizes = MappingProxyType({}),
    fill: Sizes = MappingProxyType({}),
) -> Buckets:
    """Returns the buckets of these options; raises a UsageError if they contradict each other or the model."""
    import numpy as np

    known = {info.name: tuple(shapes.get(info.name, info.shape)) for info in inputs}
    unsized = next(
        (name for name, shape in known.items() if not all(isinstance(size, int) for size in shape)), None
    )
    if unsized is not None:
        raise _wrong(f"need a size for every axis of '{unsized}'", "Give all of its shape in 'shapes'.")
    found = tuple(_dimension(name, sizes, axes, cuts, known, fill) for name, sizes in buckets.items())
    count = int(np.prod([len(d.sizes) for d in found], dtype=np.int64))
    if count > MAX_PROGRAMS:
        raise _wrong(f"come to {count} programs", f"Name fewer sizes: {MAX_PROGRAMS} programs at most.")
    # All axes have a size in `known` here, also those that are open in the model.
    sized = {name: tuple(int(size or 0) for size in shape) for name, shape in known.items()}
    mask = next(iter(masks), "")
    made = Buckets(sized, found, mask)
    if mask and (made.masked is None or dict(masks) != {mask: (1,)}):
        raise _wrong(f"name the mask '{mask}'", "Name one input with its axis 1, along which a dimension runs.")
    return made


class Masked(NamedTuple):
    """Shortening of feeds to the next bucket, by positions at the end that the mask excludes in all rows."""

    mask: str
    dimension: Dimension

    def shortened(self, feeds: Feeds) -> Feeds | None:
        """Returns the shortened feeds, or None if a row masks every position, so that its length matters."""
        mask = feeds[self.mask]
        used = used_length(mask) if mask.ndim == 2 else None
        if used is None:
            return None
        size = mask.shape[1]
        bucket = self.dimension.holding(used)
        # Outputs that follow the dimension have a value for each position, also for masked ones.
        if bucket is None or bucket >= size or any((self.dimension.cuts or {}).values()):
            return feeds
        if self.dimension.size_of({name: array.shape for name, array in feeds.items()}) is None:
            return feeds
        found = dict(feeds)
        for name, axes in self.dimension.axes.items():
            found[name] = feeds[name][tuple(slice(bucket if k in axes else None) for k in range(feeds[name].ndim))]
        return found


def fill_up(array: Array, shape: tuple[int, ...], region: Region) -> Array:
    """Returns the array in a corner of a larger one, padded with zeros."""
    import numpy as np

    larger = np.zeros(shape, array.dtype)
    larger[region] = array
    return larger


def cut_back(results: dict[str, Array], cuts: Mapping[str, Region]) -> None:
    for name, region in cuts.items():
        # The copy frees the memory of the part that is cut off.
        results[name] = results[name][region].copy()


def _dimension(
    name: str, sizes: Sequence[int], axes: Sizes, cuts: Sizes, known: Mapping[str, tuple[object, ...]], fill: Sizes
) -> Dimension:
    if not sizes or min(sizes) < 1:
        raise _wrong(f"give '{name}' no sizes from 1", "Give some, such as 16, 32, 64.")
    mine = _of(name, axes)
    if not mine:
        raise _wrong(f"name '{name}', which no input has", f"Give '{name}:INPUT' its axes.")
    for tensor, places in mine.items():
        if tensor not in known:
            raise _wrong(f"name the input '{tensor}'", f"The inputs are: {', '.join(known)}.")
        if not places or not all(0 <= place < len(known[tensor]) for place in places):
            raise _wrong(f"name no axes of '{tensor}'", f"It has {len(known[tensor])}, counted from 0.")
    ordered, fill_from = tuple(sorted(set(sizes))), tuple(fill.get(name, ()))
    if fill_from and len(fill_from) != len(ordered):
        raise _wrong(
            f"give '{name}' {len(fill_from)} sizes to fill up from", f"Give one for each of {len(ordered)}."
        )
    return Dimension(name, ordered, mine, _of(name, cuts) or None, fill_from)


def _of(dimension: str, axes: Sizes) -> dict[str, tuple[int, ...]]:
    begin = f"{dimension}:"
    return {key.removeprefix(begin): tuple(places) for key, places in axes.items() if key.startswith(begin)}


def _corner(shape: tuple[int, ...]) -> Region:
    return tuple(slice(size) for size in shape)


def _wrong(what: str, hint: str) -> UsageError:
    return UsageError(f"The options for buckets {what}, which does not fit the model.", hint)
