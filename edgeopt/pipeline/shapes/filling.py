"""Proof that inputs between two buckets may be padded with zeros, by the source model, for each dimension.

The same samples are run at their true size and padded to the next bucket; if the outputs, cut back, are the same
within float rounding, the option `bucket_cuts` allows it. Otherwise such sizes run with open shapes.
"""

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from edgeopt.backends.base import Array
from edgeopt.backends.buckets import fill_up
from edgeopt.data.samples import Samples, save_samples
from edgeopt.data.split import Split
from edgeopt.errors import ModelError, OptionReference, TrialError, UsageError
from edgeopt.events import Log, Progress
from edgeopt.graph.accuracy import EQUAL_DB, compare_outputs, decibels
from edgeopt.graph.masks import is_mask
from edgeopt.measure.contender import Contender
from edgeopt.measure.rounds import LONGEST_SLICE_MS, run_rounds, slice_ms
from edgeopt.measure.schedules import GAPS
from edgeopt.measure.trial import ROTATION
from edgeopt.pipeline.builders.messages import Inspected
from edgeopt.pipeline.notes import SearchNotes
from edgeopt.pipeline.outcome import Candidate
from edgeopt.pipeline.request import OptimizeRequest
from edgeopt.pipeline.runner import TrialRunner
from edgeopt.pipeline.shapes.sized import (
    Shaped,
    SizedDimension,
    by_turn,
    read_dimensions,
    resized,
    shape_samples,
    together,
)

_SAME_DB = 100.0
"""Agreement in dB of the same outputs: sums over another number of zeros differ in the last bits of a float32."""
_FEWEST_PAIRS, _MAX_PAIRS = 4, 24

Feeds = dict[str, Array]
Cuts = dict[str, tuple[int, ...]]


class Pair(NamedTuple):
    """Sample at its true size, and padded."""

    dimension: SizedDimension
    size: int
    bucket: int
    plain: Feeds
    filled: Feeds
    mask: str = ""
    """Input that masks the padding, if that has values other than zero."""


class SizedRun(NamedTuple):
    """Outputs of the model for both inputs of a pair."""

    pair: Pair
    plain: Mapping[str, Array]
    filled: Mapping[str, Array]


class Filling(NamedTuple):
    dimension: str
    cuts: Cuts | None
    """Axes of each output that follow the dimension; None if nothing may be padded."""
    reason: str
    mask: str = ""
    """Input whose zeros were proved to exclude places."""

    def __str__(self) -> str:
        between = f"{self.dimension}: with buckets, inputs between two sizes"
        if self.cuts is not None:
            cut = "" if not self.mask or any(self.cuts.values()) else f", and cut off where '{self.mask}' ends"
            return f"{between} are padded with zeros{cut}, which is proved exact: {self.reason}."
        return f"{between} run with open shapes, without padding: {self.reason}."


def prove_filling(
    runner: TrialRunner,
    model: Path,
    source: Candidate,
    dimensions: Sequence[SizedDimension],
    kinds: Sequence[Samples],
) -> list[Filling]:
    """Proves padding by the source model in its own runtime; `kinds` are the user's samples and generated ones."""
    pairs = [pair for dimension in dimensions for pair in _pairs(dimension, dimensions, kinds)]
    if not pairs:
        return []
    folder = runner.folder / "filling"
    save_samples(together([feeds for pair in pairs for feeds in (pair.plain, pair.filled)]), folder)
    both = replace(runner, samples_path=folder)
    try:
        contender = both.enter("filling", source.backend, model, source.options)
        try:
            outputs = both.outputs(contender, range(2 * len(pairs)))
        finally:
            contender.close()
    except TrialError as error:
        return [Filling(d.name, None, f"the model {error.message.rstrip('.')}") for d in dimensions]
    runs = [
        SizedRun(pair, plain, filled)
        for pair, plain, filled in zip(pairs, outputs[::2], outputs[1::2], strict=True)
    ]
    by_dimension = ((d.name, [run for run in runs if run.pair.dimension is d]) for d in dimensions)
    return [_judged(name, mine) for name, mine in by_dimension if mine]


def mask_of(dimension: SizedDimension, samples: Samples) -> str:
    """Returns the one input that may say which places count; empty if there are none or several."""
    first = samples.feeds(0)
    found = [name for name, axes in dimension.axes.items() if axes == (1,) and is_mask(name, first[name].ndim)]
    return found[0] if len(found) == 1 else ""


def _pairs(
    dimension: SizedDimension, all_of_them: Sequence[SizedDimension], kinds: Sequence[Samples]
) -> list[Pair]:
    """Returns pairs just above the bucket before, where most is padded, and half way; below the least size too."""
    sizes = list(dimension.between)
    sizes += [low + 1 for low, high in pairwise(dimension.sizes) if high > low + 2]
    sizes += [max(1, dimension.sizes[0] // 2)] if dimension.sizes[0] > 1 else []
    found: list[Pair] = []
    turns = max(len(kinds), -(-_FEWEST_PAIRS // max(1, len(set(sizes)))))
    for number, size in enumerate(sorted(set(sizes)) * turns):
        samples = kinds[(number + number // len(set(sizes))) % len(kinds)]
        bucket = next(one for one in dimension.sizes if one >= size)
        run_sizes = {**{d.name: d.usual for d in all_of_them}, dimension.name: size}
        index = number % len(samples)
        plain = resized(samples, index, range(len(samples)), all_of_them, run_sizes)
        filled = {name: _filled(array, dimension.axes.get(name, ()), bucket) for name, array in plain.items()}
        found.append(Pair(dimension, size, bucket, plain, filled))
        if mask := mask_of(dimension, samples):
            filled = resized(
                samples, index, range(len(samples)), all_of_them, {**run_sizes, dimension.name: bucket}
            )
            filled[mask] = filled[mask].copy()
            filled[mask][:, size:] = 0
            found.append(Pair(dimension, size, bucket, plain, filled, mask))
    return found[:_MAX_PAIRS]


def _filled(array: Array, axes: Sequence[int], size: int) -> Array:
    shape = tuple(size if axis in axes else old for axis, old in enumerate(array.shape))
    return fill_up(array, shape, tuple(slice(old) for old in array.shape)) if axes else array


def _judged(name: str, runs: Sequence[SizedRun]) -> Filling:
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
    """Returns the axes that follow the dimension; None if one grew in another way."""
    if len(plain) != len(filled):
        return None
    grown = {axis for axis, (size, other) in enumerate(zip(plain, filled, strict=True)) if size != other}
    return grown if all((plain[axis], filled[axis]) == (pair.size, pair.bucket) for axis in grown) else None


def _varies(output: str, runs: Sequence[SizedRun]) -> bool:
    first = runs[0][1][output]
    others = (plain[output] for _, plain, _ in runs[1:])
    return any(first.shape != other.shape or bool((first != other).any()) for other in others)


_FEWEST_RUNS = 3
# Open shapes compile each new size once, which takes some ten runs: slightly slower padding still pays.
_AS_FAST = 1.1
# Padding up to this ratio is allowed without a measurement.
_LITTLE = 4 / 3
LATEST = 0.78
"""Share of the time limit after which padding is no longer measured."""
FillFrom = dict[str, tuple[int, ...]]


class Gap(NamedTuple):
    """Input size between two buckets."""

    dimension: str
    size: int
    bucket: int


def settle_filling(
    runner: TrialRunner, shaped: Shaped, candidate: Candidate, path: Path, until_s: float
) -> FillFrom:
    """Returns the sizes from which it pays to pad inputs for this candidate, of the dimensions where not all sizes
    pay.

    Padding takes time, and so do open shapes. Measured once in a search, interleaved with and without buckets,
    just above the previous bucket and half way.
    """
    gaps = _tried(shaped)
    ratios: dict[Gap, float] = {}
    if time.monotonic() < until_s:
        with suppress(TrialError):  # a backend with buckets reports them when it enters
            ratios = _measured(runner, shaped, candidate, path, gaps)
    # Sizes that were not measured are padded if the padding is small: then they cannot be much slower.
    pays = {gap for gap in gaps if ratios.get(gap, _guess(gap)) <= _AS_FAST}
    named = {gap.dimension for gap in gaps}
    found = {d.name: min_filled(d, pays) for d in shaped.dimensions if d.name in named}
    return {d.name: found[d.name] for d in shaped.dimensions if found.get(d.name, _all(d)) != _all(d)}


def may_be_settled(shaped: Shaped) -> bool:
    """Whether something may be padded, and it is not settled yet from which size on."""
    return bool(_tried(shaped)) and not shaped.fill_from


def _tried(shaped: Shaped) -> list[Gap]:
    return gaps_of([d for d in shaped.dimensions if d.name in shaped.cuts])[:ROTATION]


def _guess(gap: Gap) -> float:
    return 1.0 if gap.bucket <= _LITTLE * gap.size else float("inf")


def gaps_of(dimensions: list[SizedDimension]) -> list[Gap]:
    """Returns the worst size of each gap first, where most is padded, then the one half way."""
    found: list[Gap] = []
    for dimension in dimensions:
        for low, high in pairwise((0, *dimension.sizes)):
            sizes = {size for size in (low + 1, (low + high) // 2) if low < size < high}
            found += [Gap(dimension.name, size, high) for size in sorted(sizes)]
    return found


def min_filled(dimension: SizedDimension, pays: set[Gap]) -> tuple[int, ...]:
    """Returns for each size the least one that is padded to it; the size itself if none is."""
    minimum = []
    for low, high in pairwise((0, *dimension.sizes)):
        first, half = (Gap(dimension.name, size, high) for size in (low + 1, (low + high) // 2))
        paying = [gap.size for gap in (first, half) if gap in pays]
        # If padding pays where most is padded, it pays half way too.
        minimum.append(low + 1 if first in pays or high - low == 1 else min(paying, default=high))
    return tuple(minimum)


def describe_filling(dimension: SizedDimension, minimum: tuple[int, ...]) -> str:
    filled = [f"{low} to {high}" for low, high in zip(minimum, dimension.sizes, strict=True) if low < high]
    others = "others run with open shapes, which is faster"
    ranges = f"inputs are padded from {', '.join(filled)}" if filled else "no inputs are padded"
    return f"{dimension.name}: with buckets, {ranges}; {others}."


def _all(dimension: SizedDimension) -> tuple[int, ...]:
    return tuple(low + 1 for low, _ in pairwise((0, *dimension.sizes)))


def _measured(
    runner: TrialRunner, shaped: Shaped, candidate: Candidate, path: Path, gaps: list[Gap]
) -> dict[Gap, float]:
    """Returns the time with padding relative to open shapes, for the gaps that were run often enough."""
    usual, originals = {d.name: d.usual for d in shaped.dimensions}, shaped.originals
    runs = []
    for place, gap in enumerate(gaps):
        sizes = {**usual, gap.dimension: gap.size}
        run = resized(originals, place % len(originals), range(len(originals)), shaped.dimensions, sizes)
        if shaped.mask:
            run[shaped.mask] = np.ones_like(run[shaped.mask])  # masked positions would be skipped
        runs.append(run)
    between = replace(runner, samples_path=runner.folder / "gaps")
    save_samples(together(runs), between.samples_path)
    with ExitStack() as stack:

        def start(name: str, options: dict[str, dict[str, list[int]]]) -> Contender:
            contender = between.enter(name, candidate.backend, path, {**candidate.options, **options})
            stack.callback(contender.close)
            return contender

        sides = [start("filled up", shaped.options), start("open shapes", {})]
        run_rounds(sides, 1, slice_ms(sides[1].loaded.first_run_ms))
        span_ms = min(LONGEST_SLICE_MS, 2.5 * len(gaps) * max(side.run_ms for side in sides))
        for side in sides:
            side.laps.clear()
        run_rounds(sides, GAPS.maximum, max(span_ms, slice_ms(sides[1].run_ms)))
        failure = next((side.failure for side in sides if side.failure), None)
        if failure:
            raise TrialError(failure)
        filled, plain = (by_turn(side, len(gaps)) for side in sides)
    return {
        gap: float(np.median(filled[k]) / np.median(plain[k]))
        for k, gap in enumerate(gaps)
        if min(len(filled.get(k, ())), len(plain.get(k, ()))) >= _FEWEST_RUNS
    }


NO_BUCKETS = (
    "Buckets were not tried: the best candidates run in ONNX Runtime, where one program for all sizes is as fast."
)
_SHAPE = OptionReference("shape")


def check_shape(settings: OptimizeRequest) -> None:
    """Raises UsageError for options that do not go together with `--shape`."""
    if not settings.shape:
        return
    if settings.goal.kind.needs_labels:
        raise UsageError(
            f"--shape cannot be combined with the metric '{settings.goal.metric}', because its labels may not fit "
            "samples cut to other sizes.",
            "Leave one of them out.",
        )
    if settings.pre is not None or settings.post is not None:
        raise UsageError(
            "--shape cannot be combined with --pre and --post yet.",
            "Leave out --pre and --post, and pass inputs of the model as data.",
        )
    if settings.objective == "throughput":
        raise UsageError(
            f"{_SHAPE} cannot be combined with the objective throughput, which varies the batch size itself.",
            "Leave one of them out.",
            [_SHAPE],
        )


def shaped_samples(
    settings: OptimizeRequest, facts: Inspected, samples: Samples, chosen: Split, folder: Path
) -> Shaped | None:
    """Returns the samples in the sizes that were asked for, if any; raises UsageError for impossible sizes."""
    if not settings.shape:
        return None
    dimensions, fewer = read_dimensions(settings.shape, facts.inputs)
    return shape_samples(samples, dimensions, chosen, folder, fewer)


@contextmanager
def explained(shaped: Shaped | None) -> Iterator[None]:
    """Explains an error of the trial: a model may accept only one size of a dimension that it leaves open."""
    try:
        yield
    except TrialError as error:
        if shaped is None:
            raise
        raise ModelError(
            f"The model does not run at every requested size: it {error.message}",
            "Give sizes that the model supports, or export it again with dimensions that are open in all nodes.",
        ) from error


def settle_buckets(
    shaped: Shaped,
    runner: TrialRunner,
    model: Path,
    source: Candidate,
    made_up: Samples | None,
    notes: SearchNotes,
) -> Shaped:
    """Proves along which dimensions inputs may be padded, and reports all that a user must know of the sizes.

    `made_up`: generated inputs for the proof, if the others are the user's.
    """
    if shaped.note:
        notes.warn(shaped.note)
    sizes = "; ".join(f"{d}, the usual one {d.usual}" for d in shaped.dimensions)
    made = "Your samples were cut, repeated or joined" if made_up is not None else "Generated inputs were created"
    notes.emit(Log("info", f"{made} to these sizes, half of them to the usual one: {sizes}."))
    notes.emit(Progress("preparing", "whether inputs between two sizes may be padded"))
    kinds = [shaped.originals] if made_up is None else [shaped.originals, made_up]
    found = prove_filling(runner, model, source, shaped.dimensions, kinds)
    for each in found:
        notes.inform(str(each))
    cuts = {each.dimension: each.cuts for each in found if each.cuts is not None}
    mask = next((each.mask for each in found if each.cuts is not None and each.mask), "")
    return dataclasses.replace(shaped, cuts=cuts, mask=mask)


def with_buckets(shaped: Shaped, candidates: Sequence[Candidate], maximum: int) -> list[Candidate]:
    """Returns the first few candidates that can have a program for each size, with these programs."""
    able = [one for one in candidates if "shapes" in one.options and "buckets" not in one.options][:maximum]
    return [msgspec.structs.replace(one, options={**one.options, **shaped.options}) for one in able]
