"""Whether inputs between two buckets may be padded with zeros: proved on the source model, by dimension.

The same samples are run at their true size and filled up to the next bucket; where the outputs, cut back, are the
same within float rounding, the option `bucket_cuts` allows it. Otherwise such sizes run with open shapes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from edgeopt.backends.base import Array
from edgeopt.backends.buckets import fill_up
from edgeopt.data.samples import Samples, save_samples
from edgeopt.errors import TrialError
from edgeopt.graph.accuracy import EQUAL_DB, compare_outputs, decibels
from edgeopt.graph.masks import is_mask
from edgeopt.search.outcome import Candidate
from edgeopt.search.racing.ground import Ground
from edgeopt.search.shapes.shaping import Dimension
from edgeopt.search.shapes.sized import resized, together

_SAME_DB = 100.0
"""Sums over another number of zeros differ in the last bits of a float32, and by no more."""
_FEWEST_PAIRS, _MOST_PAIRS = 4, 24

Feeds = dict[str, Array]
Cuts = dict[str, tuple[int, ...]]


class Pair(NamedTuple):
    """A sample at its true size, and filled up."""

    dimension: Dimension
    size: int
    bucket: int
    plain: Feeds
    filled: Feeds
    mask: str = ""
    """Filled up with what is no zeros, which this mask leaves out."""


class Run(NamedTuple):
    """What the model answered to both."""

    pair: Pair
    plain: Mapping[str, Array]
    filled: Mapping[str, Array]


class Filling(NamedTuple):
    dimension: str
    cuts: Cuts | None
    """The axes of each output that follow the dimension; None where nothing may be filled up."""
    reason: str
    mask: str = ""
    """The input whose zeros were proved to leave places out."""

    def __str__(self) -> str:
        between = f"{self.dimension}: with buckets, inputs between two sizes"
        if self.cuts is not None:
            cut = "" if not self.mask or any(self.cuts.values()) else f", and cut off where '{self.mask}' ends"
            return f"{between} are padded with zeros{cut}, which is proved exact: {self.reason}."
        return f"{between} run with open shapes, without padding: {self.reason}."


def prove_filling(
    ground: Ground, model: Path, source: Candidate, dimensions: Sequence[Dimension], kinds: Sequence[Samples]
) -> list[Filling]:
    """By the source model in its own runtime; `kinds` are the user's samples and made-up ones."""
    pairs = [pair for dimension in dimensions for pair in _pairs(dimension, dimensions, kinds)]
    if not pairs:
        return []
    folder = ground.folder / "filling"
    save_samples(together([feeds for pair in pairs for feeds in (pair.plain, pair.filled)]), folder)
    both = replace(ground, samples_path=folder)
    try:
        contender = both.enter("filling", source.backend, model, source.options)
        try:
            outputs = both.outputs(contender, range(2 * len(pairs)))
        finally:
            contender.close()
    except TrialError as error:
        return [Filling(d.name, None, f"the model {error.message.rstrip('.')}") for d in dimensions]
    runs = [
        Run(pair, plain, filled) for pair, plain, filled in zip(pairs, outputs[::2], outputs[1::2], strict=True)
    ]
    by_dimension = ((d.name, [run for run in runs if run.pair.dimension is d]) for d in dimensions)
    return [_judged(name, mine) for name, mine in by_dimension if mine]


def mask_of(dimension: Dimension, samples: Samples) -> str:
    """The one input that may say which places count; empty where none or several do."""
    first = samples.feeds(0)
    found = [name for name, axes in dimension.axes.items() if axes == (1,) and is_mask(name, first[name].ndim)]
    return found[0] if len(found) == 1 else ""


def _pairs(dimension: Dimension, all_of_them: Sequence[Dimension], kinds: Sequence[Samples]) -> list[Pair]:
    """Just above the bucket before, where most is filled up, and half way; below the least size too."""
    sizes = list(dimension.between)
    sizes += [low + 1 for low, high in pairwise(dimension.sizes) if high > low + 2]
    sizes += [max(1, dimension.sizes[0] // 2)] if dimension.sizes[0] > 1 else []
    found: list[Pair] = []
    turns = max(len(kinds), -(-_FEWEST_PAIRS // max(1, len(set(sizes)))))
    for number, size in enumerate(sorted(set(sizes)) * turns):
        samples = kinds[(number + number // len(set(sizes))) % len(kinds)]
        bucket = next(one for one in dimension.sizes if one >= size)
        wanted = {**{d.name: d.usual for d in all_of_them}, dimension.name: size}
        index = number % len(samples)
        plain = resized(samples, index, range(len(samples)), all_of_them, wanted)
        filled = {name: _filled(array, dimension.axes.get(name, ()), bucket) for name, array in plain.items()}
        found.append(Pair(dimension, size, bucket, plain, filled))
        if mask := mask_of(dimension, samples):
            filled = resized(samples, index, range(len(samples)), all_of_them, {**wanted, dimension.name: bucket})
            filled[mask] = filled[mask].copy()
            filled[mask][:, size:] = 0
            found.append(Pair(dimension, size, bucket, plain, filled, mask))
    return found[:_MOST_PAIRS]


def _filled(array: Array, axes: Sequence[int], size: int) -> Array:
    shape = tuple(size if axis in axes else old for axis, old in enumerate(array.shape))
    return fill_up(array, shape, tuple(slice(old) for old in array.shape)) if axes else array


def _judged(name: str, runs: Sequence[Run]) -> Filling:
    cuts: dict[str, set[int]] = {output: set() for output in runs[0][1]}
    worst_db = float("inf")
    for pair, plain, filled in runs:
        at = f"at {pair.size} of {pair.bucket}" + (f", the rest masked by '{pair.mask}'," if pair.mask else "")
        for output, array in plain.items():
            axes = _grown(array.shape, filled[output].shape, pair)
            if axes is None:
                shapes = f"{list(array.shape)}, padded {list(filled[output].shape)}"
                return Filling(name, None, f"{at} the output '{output}' is {shapes}")
            cuts[output] |= axes
        kept = {output: array[tuple(map(slice, plain[output].shape))] for output, array in filled.items()}
        found = compare_outputs([dict(plain)], [kept])
        if found.problem or found.snr_db < _SAME_DB:
            return Filling(name, None, f"{at} the outputs differ ({found.problem or decibels(found.snr_db)})")
        worst_db = min(worst_db, found.snr_db)
    floats = [output for output, array in runs[0][1].items() if array.dtype.kind == "f"]
    if not any(_varies(output, runs) for output in floats):
        return Filling(name, None, "no float output differs between samples, so nothing is proved")
    same = "equal answers" if worst_db >= EQUAL_DB else f"the same outputs, at least {decibels(worst_db)},"
    reason = f"{same} on {len(runs)} samples"
    mask = next((run.pair.mask for run in runs if run.pair.mask), "")
    return Filling(name, {output: tuple(sorted(axes)) for output, axes in cuts.items()}, reason, mask)


def _grown(plain: tuple[int, ...], filled: tuple[int, ...], pair: Pair) -> set[int] | None:
    """The axes that follow the dimension; None where one grew in another way."""
    if len(plain) != len(filled):
        return None
    grown = {axis for axis, (size, other) in enumerate(zip(plain, filled, strict=True)) if size != other}
    return grown if all((plain[axis], filled[axis]) == (pair.size, pair.bucket) for axis in grown) else None


def _varies(output: str, runs: Sequence[Run]) -> bool:
    first = runs[0][1][output]
    others = (plain[output] for _, plain, _ in runs[1:])
    return any(first.shape != other.shape or bool((first != other).any()) for other in others)
