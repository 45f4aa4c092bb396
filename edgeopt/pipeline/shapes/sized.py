"""Samples of the sizes that were asked for, made of those at hand: cut, repeated, or joined to a batch.

A search with buckets has two sets of samples, in the same order: one of the usual size, with which variants are
made; and one of all sizes, half of them the usual one, on which candidates are compared, raced and proved.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from pathlib import Path

import msgspec
import numpy as np

from edgeopt import units
from edgeopt.backends.base import Array, TensorInfo
from edgeopt.data.samples import Samples, save_samples
from edgeopt.data.split import Split
from edgeopt.errors import UsageError
from edgeopt.measure.contender import Contender
from edgeopt.nearest import nearest
from edgeopt.pipeline.outcome import SizeTimes

MAX_SIZES = 8
MAX_PROGRAMS = 16
_HOW = "Write seq=16:32:128 (minimum, usual, maximum) or seq=16,32,64."
# A doubling this close to a requested size gets no bucket of its own.
_NEAR = 1.3
_LARGEST = 1 << 20


class SizedDimension(msgspec.Struct, frozen=True):
    name: str
    sizes: tuple[int, ...]
    """Sizes from small to large."""
    usual: int
    axes: dict[str, tuple[int, ...]]
    """Axes of the inputs that have the dimension."""

    @property
    def between(self) -> tuple[int, ...]:
        """Returns a size in the middle of each gap."""
        return tuple((low + high) // 2 for low, high in pairwise(self.sizes) if high - low > 1)

    def __str__(self) -> str:
        return f"{self.name}={','.join(map(str, self.sizes))}"


def read_dimensions(
    texts: Sequence[str], inputs: tuple[TensorInfo, ...]
) -> tuple[tuple[SizedDimension, ...], str]:
    """Returns the dimensions that were asked for, and a sentence on omitted sizes; raises UsageError."""
    known = open_dimensions(inputs)
    found: dict[str, SizedDimension] = {}
    ranges: dict[str, tuple[int, int, int]] = {}
    for text in texts:
        name, _, sizes_text = text.rpartition("=")
        if not name or not sizes_text:
            raise UsageError(f"'{text}' does not say which sizes a dimension has.", _HOW)
        if name not in known:
            raise UsageError(f"The model has no open dimension '{name}'.", _hint(name, known))
        if name in found:
            raise UsageError(f"The dimension '{name}' is named twice.", f"Give all its sizes at once. {_HOW}")
        sizes, usual = _listed(text, sizes_text) if ":" not in sizes_text else ((), 0)
        if not sizes:
            ranges[name] = _range(text, sizes_text)
            sizes, usual = _doublings(*ranges[name], 2), ranges[name][1]
        found[name] = SizedDimension(name, sizes, usual, known[name])
    dimensions = list(found.values())
    return _few(dimensions, ranges)


def open_dimensions(inputs: tuple[TensorInfo, ...]) -> dict[str, dict[str, tuple[int, ...]]]:
    """Returns the axes of each input by dimension; dimensions without a name are called `INPUT.AXIS`."""
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for info in inputs:
        for axis, size in enumerate(info.shape):
            if not isinstance(size, int):
                places = found.setdefault(size or f"{info.name}.{axis}", {})
                places[info.name] = (*places.get(info.name, ()), axis)
    return found


def _few(
    dimensions: list[SizedDimension], ranges: Mapping[str, tuple[int, int, int]]
) -> tuple[tuple[SizedDimension, ...], str]:
    """Reduces the sizes in between if all together would be too many programs; returns a sentence on it."""
    made, steps = list(dimensions), dict.fromkeys(ranges, 2)
    while _too_many(made):
        rich = [d for d in made if d.name in ranges and len(d.sizes) > len(set(ranges[d.name]))]
        if not rich:
            raise UsageError(
                f"These are {prod(len(d.sizes) for d in made)} combinations of sizes; the maximum is "
                f"{MAX_PROGRAMS}, with {MAX_SIZES} sizes per dimension.",
                "Give fewer sizes: each combination is one program in memory.",
            )
        maximum = max(rich, key=lambda d: len(d.sizes))
        steps[maximum.name] *= 2
        fewer = _doublings(*ranges[maximum.name], steps[maximum.name])
        made[made.index(maximum)] = msgspec.structs.replace(maximum, sizes=fewer)
    reductions = [
        f"{d.name}: {', '.join(map(str, d.sizes))} instead of {len(before.sizes)} sizes"
        for d, before in zip(made, dimensions, strict=True)
        if d.sizes != before.sizes
    ]
    note = f"Sizes in between were reduced to fit {MAX_PROGRAMS} programs: {'; '.join(reductions)}."
    return tuple(made), note if reductions else ""


def _too_many(made: Sequence[SizedDimension]) -> bool:
    return prod(len(d.sizes) for d in made) > MAX_PROGRAMS or any(len(d.sizes) > MAX_SIZES for d in made)


def _doublings(minimum: int, usual: int, maximum: int, step: int) -> tuple[int, ...]:
    required = {minimum, usual, maximum}
    sizes, size = set(required), minimum * step
    while size < maximum:
        if all(max(size, one) >= _NEAR * min(size, one) for one in required):
            sizes.add(size)
        size *= step
    return tuple(sorted(sizes))


def _range(text: str, sizes_text: str) -> tuple[int, int, int]:
    sizes = [_size(text, one) for one in sizes_text.split(":")]
    if len(sizes) != 3:
        raise UsageError(f"'{text}' has {len(sizes)} sizes; it needs three.", _HOW)
    minimum, usual, maximum = sizes
    if not minimum <= usual <= maximum:
        raise UsageError(f"'{text}' must list the minimum, usual and maximum size in this order.", _HOW)
    return minimum, usual, maximum


def _listed(text: str, sizes_text: str) -> tuple[tuple[int, ...], int]:
    """Reads a list of sizes without a usual one; the one in the middle is used for it."""
    sizes = tuple(sorted({_size(text, one) for one in sizes_text.split(",")}))
    return sizes, sizes[len(sizes) // 2]


def _size(text: str, word: str) -> int:
    if not re.fullmatch(r"\d{1,7}", word.strip()) or not 1 <= int(word) <= _LARGEST:
        raise UsageError(f"In '{text}', '{word.strip()}' is not a size.", f"Give whole numbers from 1. {_HOW}")
    return int(word)


def _hint(name: str, known: Mapping[str, object]) -> str:
    if not known:
        return "All dimensions of its inputs are fixed, so it needs no buckets."
    listed = f"Its open dimensions are: {', '.join(known)}."
    hint = nearest(name, known, listed)
    return hint if hint == listed else f"{hint} {listed}"


_MAX_BYTES = 1 << 30
Sizes = Mapping[str, int]
"""Size of each dimension, by its name."""


@dataclass(frozen=True, slots=True)
class Shaped:
    """Sizes, samples and padding of a search with `--shape`."""

    dimensions: tuple[SizedDimension, ...]
    samples: Samples
    """Samples of all sizes."""
    originals: Samples
    """Samples from which those of all sizes were made."""
    usual_path: Path
    """Path of the samples of the usual size."""
    cuts: dict[str, dict[str, tuple[int, ...]]] = field(default_factory=dict)
    """Axes of outputs by dimension, for the dimensions along which padding was proved to change nothing."""
    mask: str = ""
    """Input whose zeros were proved to have no effect."""
    fill_from: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Least size that is padded to each size, by dimension, where open shapes are faster below."""
    note: str = ""
    """Sizes that were asked for and left out, as a sentence."""

    def sizes_of(self, index: int) -> Sizes:
        """Returns the sizes of one sample."""
        return in_turn(self.dimensions, index + 1)[index]

    @property
    def options(self) -> dict[str, dict[str, list[int]]]:
        """Returns the runtime options of a backend with buckets."""
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
    samples: Samples, dimensions: tuple[SizedDimension, ...], split: Split, folder: Path, note: str = ""
) -> Shaped:
    """Makes both sets of samples, and writes that of the usual size; raises UsageError if they are too large."""
    usual: Sizes = {d.name: d.usual for d in dimensions}
    largest: Sizes = {d.name: d.sizes[-1] for d in dimensions}
    needed = len(samples) * max(_bytes(samples, dimensions, sizes) for sizes in (usual, largest))
    if needed > _MAX_BYTES:
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


def of_sizes(samples: Samples, sizes: Sizes, inputs: tuple[TensorInfo, ...]) -> Samples:
    """Returns all samples in these sizes of open dimensions."""
    axes = open_dimensions(inputs)
    dimensions = [SizedDimension(name, (size,), size, axes[name]) for name, size in sizes.items()]
    every = range(len(samples))
    return together([resized(samples, index, every, dimensions, sizes) for index in every]) if sizes else samples


def in_turn(dimensions: Sequence[SizedDimension], count: int) -> list[Sizes]:
    """Returns sizes for this number of samples: every other one is the usual size; the others alternate."""
    others = [_others(dimension) for dimension in dimensions]
    found: list[Sizes] = []
    for number in range(count):
        turn = number // 2
        # Shifted against each other, so that two dimensions are not always combined in the same pairs.
        places = [(turn + shift * (turn // len(of))) % len(of) for shift, of in enumerate(others)]
        odd = [of[place] for of, place in zip(others, places, strict=True)]
        chosen = odd if number % 2 else [dimension.usual for dimension in dimensions]
        found.append({dimension.name: size for dimension, size in zip(dimensions, chosen, strict=True)})
    return found


def resized(
    samples: Samples, index: int, part: range, dimensions: Sequence[SizedDimension], sizes: Sizes
) -> dict[str, Array]:
    """Returns one sample in these sizes; if it has only one row of a dimension, the others come from samples near
    it.

    They come from the same part: what proves a result must hold nothing that was seen before.
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
    """Stores samples of different sizes together: each in the corner of an array that holds the largest."""
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
    """Returns the part of the samples that this one belongs to: calibration, check or proof."""
    if split.check_first <= index < split.check_first + split.check_count:
        return range(split.check_first, split.check_first + split.check_count)
    if split.prove_first <= index:
        return range(split.prove_first, count)
    return range(min(split.check_first, split.prove_first) or count)


def _others(dimension: SizedDimension) -> list[int]:
    return [size for size in (*dimension.sizes, *dimension.between) if size != dimension.usual] or [
        dimension.usual
    ]


def _is_single(samples: Samples, dimension: SizedDimension) -> bool:
    first = samples.feeds(0)
    return all(first[name].shape[axis] == 1 for name, axes in dimension.axes.items() for axis in axes)


def _stretched(feeds: Mapping[str, Array], dimensions: Sequence[SizedDimension], sizes: Sizes) -> dict[str, Array]:
    found = dict(feeds)
    for dimension in dimensions:
        for name, axes in dimension.axes.items():
            found[name] = _along(found[name], axes, sizes[dimension.name])
    return found


def _along(array: Array, axes: Sequence[int], size: int) -> Array:
    """Resizes an array: cuts it, or repeats it from its beginning."""
    for axis in axes:
        array = np.take(array, np.arange(size) % max(1, array.shape[axis]), axis=axis)
    return array


def _bytes(samples: Samples, dimensions: Sequence[SizedDimension], sizes: Sizes) -> int:
    total = 0
    for name, array in samples.feeds(0).items():
        shape = list(array.shape)
        for dimension in dimensions:
            for axis in dimension.axes.get(name, ()):
                shape[axis] = sizes[dimension.name]
        total += int(np.prod(shape, dtype=np.int64)) * array.dtype.itemsize
    return total


_FEWEST_RUNS = 8


def times_by_size(
    shaped: Shaped | None, baseline: Contender, other: Contender, turns: int
) -> tuple[SizeTimes, ...]:
    """Returns the times of each size, the smallest first; empty for a single size, or if a side has none."""
    if shaped is None:
        return ()
    sides = [by_turn(contender, turns) for contender in (baseline, other)]
    found: dict[tuple[int, ...], tuple[list[float], list[float]]] = {}
    for turn in range(turns):
        key = tuple(shaped.sizes_of(turn).values())
        for place, side in enumerate(sides):
            found.setdefault(key, ([], []))[place].extend(side.get(turn, ()))
    names = [dimension.name for dimension in shaped.dimensions]
    return tuple(
        SizeTimes(
            dict(zip(names, key, strict=True)),
            float(np.median(old)),
            float(np.median(new)),
            min(len(old), len(new)),
            min(len(old), len(new)) >= _FEWEST_RUNS
            and float(np.quantile(new, 0.25)) > float(np.quantile(old, 0.75)),
        )
        for key, (old, new) in sorted(found.items())
        if old and new
    )


def slower_sizes(times: Sequence[SizeTimes]) -> str:
    """Lists the sizes at which the bundle is clearly slower than the baseline, in words; empty if none is."""
    sizes = [f"{t.name} ({units.time_instead(t.latency_ms, t.baseline_ms)})" for t in times if t.slower]
    return f"slower at {', '.join(sizes)}" if sizes else ""


def by_turn(contender: Contender, turns: int) -> Mapping[int, list[float]]:
    """Returns the latencies of each place in the rotation of samples."""
    found: dict[int, list[float]] = {}
    for first, latencies_ms in contender.laps:
        for number, latency_ms in enumerate(latencies_ms):
            found.setdefault((first + number) % turns, []).append(latency_ms)
    return found
