"""Samples of the sizes that were asked for, made of those at hand: cut, repeated, or joined to a batch.

A search with buckets has two sets of them, in the same order: all of the usual size, which variants are made with;
and of all sizes, half of them the usual one, on which candidates are compared, raced and proved.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from edgeopt import units
from edgeopt.backends.base import Array
from edgeopt.data.samples import Samples, save_samples
from edgeopt.data.split import Split
from edgeopt.errors import UsageError
from edgeopt.search.shapes.shaping import Dimension

_MOST_BYTES = 1 << 30
Sizes = Mapping[str, int]
"""By the name of the dimension."""


@dataclass(frozen=True, slots=True)
class Shaped:
    """What a search with `--shape` works with."""

    dimensions: tuple[Dimension, ...]
    samples: Samples
    """Of all sizes."""
    given: Samples
    """What they were made of."""
    usual_path: Path
    """Where those of the usual size lie."""
    cuts: dict[str, dict[str, tuple[int, ...]]] = field(default_factory=dict)
    """The axes of outputs by dimension, for those along which filling up was proved to change nothing."""
    mask: str = ""
    """The input whose zeros were proved to have no effect."""
    fill_from: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """By dimension, for each size the least that is filled up to it, where open shapes are quicker below."""
    note: str = ""
    """What was left out of what was asked for, as a sentence."""

    def sizes_of(self, index: int) -> Sizes:
        """Of one sample."""
        return in_turn(self.dimensions, index + 1)[index]

    @property
    def options(self) -> dict[str, dict[str, list[int]]]:
        """As a backend with buckets takes them."""
        axes = {f"{d.name}:{name}": list(places) for d in self.dimensions for name, places in d.axes.items()}
        cuts = {
            f"{d}:{name}": list(places) for d, outputs in self.cuts.items() for name, places in outputs.items()
        }
        buckets = {d.name: list(d.sizes) for d in self.dimensions}
        masks = {self.mask: [1]} if self.mask else {}
        fill = {name: list(sizes) for name, sizes in self.fill_from.items()}
        found = {"buckets": buckets, "bucket_axes": axes, "bucket_cuts": cuts, "bucket_fill": fill}
        found["bucket_mask"] = masks
        return {name: value for name, value in found.items() if value}


def shape_samples(
    samples: Samples, dimensions: tuple[Dimension, ...], split: Split, folder: Path, note: str = ""
) -> Shaped:
    """Makes both sets, and writes those of the usual size; raises UsageError where they would be too large."""
    usual: Sizes = {d.name: d.usual for d in dimensions}
    largest: Sizes = {d.name: d.sizes[-1] for d in dimensions}
    needed = len(samples) * max(_bytes(samples, dimensions, sizes) for sizes in (usual, largest))
    if needed > _MOST_BYTES:
        raise UsageError(
            f"{len(samples)} samples of these sizes need {units.size(needed)} of memory.",
            "Give fewer samples (48 are enough), or a smaller largest size.",
        )
    every = range(len(samples))
    parts = [part_of(split, index, len(samples)) for index in every]
    of_usual = [resized(samples, index, parts[index], dimensions, usual) for index in every]
    # One at a time: repeated to the largest size, all together would take several times the memory.
    mixed = [
        resized(samples, index, parts[index], dimensions, sizes)
        for index, sizes in zip(every, in_turn(dimensions, len(samples)), strict=True)
    ]
    shaped = Shaped(dimensions, together(mixed), samples, folder / "usual", note=note)
    save_samples(together(of_usual), shaped.usual_path)
    return shaped


def in_turn(dimensions: Sequence[Dimension], count: int) -> list[Sizes]:
    """Sizes for this number of samples: every other one is the usual size; the others alternate."""
    others = [_others(dimension) for dimension in dimensions]
    found: list[Sizes] = []
    for number in range(count):
        turn = number // 2
        # Shifted against each other, so that two dimensions do not always meet in the same pairs.
        places = [(turn + shift * (turn // len(of))) % len(of) for shift, of in enumerate(others)]
        odd = [of[place] for of, place in zip(others, places, strict=True)]
        chosen = odd if number % 2 else [dimension.usual for dimension in dimensions]
        found.append({dimension.name: size for dimension, size in zip(dimensions, chosen, strict=True)})
    return found


def resized(
    samples: Samples, index: int, part: range, dimensions: Sequence[Dimension], sizes: Sizes
) -> dict[str, Array]:
    """One sample in these sizes. Where it has only one row of a dimension, the others come of samples near it.

    They come of the same part: what proves a result must hold nothing that was seen before.
    """
    batch = next((d for d in dimensions if _is_single(samples, d)), None)
    rows = sizes[batch.name] if batch is not None else 1
    places = [part[(index - part.start + row) % len(part)] for row in range(min(rows, len(part)))]
    taken = [
        _stretched(samples.feeds(place), [d for d in dimensions if d is not batch], sizes) for place in places
    ]
    if batch is None:
        return taken[0]
    feeds = dict(taken[0])
    for name, axes in batch.axes.items():
        joined = np.concatenate([one[name] for one in taken], axes[0])
        feeds[name] = _along(joined, axes, rows)
    return feeds


def together(runs: Sequence[Mapping[str, Array]]) -> Samples:
    """Samples of different sizes: each in the corner of an array that holds the largest."""
    arrays: dict[str, Array] = {}
    sizes: dict[str, Array] = {}
    for name in runs[0]:
        shapes = np.array([run[name].shape for run in runs], np.int64).reshape(len(runs), -1)
        arrays[name] = np.zeros((len(runs), *shapes.max(axis=0).tolist()), runs[0][name].dtype)
        for place, run in enumerate(runs):
            corner: tuple[int | slice, ...] = (place, *(slice(size) for size in run[name].shape))
            arrays[name][corner] = run[name]
        if (shapes != shapes[0]).any():
            sizes[name] = shapes
    return Samples(arrays, {name: array.ndim - 1 for name, array in arrays.items()}, sizes=sizes)


def part_of(split: Split, index: int, count: int) -> range:
    """The samples that do the same work as this one."""
    if split.check_first <= index < split.check_first + split.check_count:
        return range(split.check_first, split.check_first + split.check_count)
    if split.prove_first <= index:
        return range(split.prove_first, count)
    return range(min(split.check_first, split.prove_first) or count)


def _others(dimension: Dimension) -> list[int]:
    return [size for size in (*dimension.sizes, *dimension.between) if size != dimension.usual] or [
        dimension.usual
    ]


def _is_single(samples: Samples, dimension: Dimension) -> bool:
    first = samples.feeds(0)
    return all(first[name].shape[axis] == 1 for name, axes in dimension.axes.items() for axis in axes)


def _stretched(feeds: Mapping[str, Array], dimensions: Sequence[Dimension], sizes: Sizes) -> dict[str, Array]:
    found = dict(feeds)
    for dimension in dimensions:
        for name, axes in dimension.axes.items():
            found[name] = _along(found[name], axes, sizes[dimension.name])
    return found


def _along(array: Array, axes: Sequence[int], size: int) -> Array:
    """Cut, or repeated from its begin."""
    for axis in axes:
        array = np.take(array, np.arange(size) % max(1, array.shape[axis]), axis=axis)
    return array


def _bytes(samples: Samples, dimensions: Sequence[Dimension], sizes: Sizes) -> int:
    total = 0
    for name, array in samples.feeds(0).items():
        shape = list(array.shape)
        for dimension in dimensions:
            for axis in dimension.axes.get(name, ()):
                shape[axis] = sizes[dimension.name]
        total += int(np.prod(shape, dtype=np.int64)) * array.dtype.itemsize
    return total
