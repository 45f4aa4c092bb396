"""The size from which it pays to pad an input: padding takes time, and so do open shapes.

Measured once in a search, interleaved with and without buckets, just above the previous bucket and half way.
"""

import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from edgeopt.data.samples import save_samples
from edgeopt.errors import TrialError
from edgeopt.measure.contender import Contender
from edgeopt.measure.rounds import LONGEST_SLICE_MS, run_rounds, slice_ms
from edgeopt.measure.terms import GAPS
from edgeopt.measure.trial import ROTATION
from edgeopt.search.outcome import Candidate
from edgeopt.search.racing.ground import Ground
from edgeopt.search.shapes.by_size import by_turn
from edgeopt.search.shapes.shaping import Dimension
from edgeopt.search.shapes.sized import Shaped, resized, together

_FEWEST_RUNS = 3
# Compiling for a new size takes open shapes some ten runs, once for each: a little more time each run is no loss.
_AS_FAST = 1.1
# Padding up to this ratio is allowed without a measurement.
_LITTLE = 4 / 3
LATEST = 0.78
"""Of the time limit: later, nothing is measured for it."""
FillFrom = dict[str, tuple[int, ...]]


class Gap(NamedTuple):
    """An input between two sizes."""

    dimension: str
    size: int
    bucket: int


def settle_filling(ground: Ground, shaped: Shaped, candidate: Candidate, path: Path, until_s: float) -> FillFrom:
    """From which sizes on inputs are filled up, by this candidate; of the dimensions where that is not all."""
    gaps = _tried(shaped)
    ratios: dict[Gap, float] = {}
    if time.monotonic() < until_s:
        with suppress(TrialError):  # a backend with buckets reports them when it enters
            ratios = _measured(ground, shaped, candidate, path, gaps)
    # What was not measured is filled up where little is: then it cannot be much slower.
    pays = {gap for gap in gaps if ratios.get(gap, _guess(gap)) <= _AS_FAST}
    named = {gap.dimension for gap in gaps}
    found = {d.name: least_filled(d, pays) for d in shaped.dimensions if d.name in named}
    return {d.name: found[d.name] for d in shaped.dimensions if found.get(d.name, _all(d)) != _all(d)}


def may_be_settled(shaped: Shaped) -> bool:
    """Something may be filled up, and it is not settled yet from where on."""
    return bool(_tried(shaped)) and not shaped.fill_from


def _tried(shaped: Shaped) -> list[Gap]:
    return gaps_of([d for d in shaped.dimensions if d.name in shaped.cuts])[:ROTATION]


def _guess(gap: Gap) -> float:
    return 1.0 if gap.bucket <= _LITTLE * gap.size else float("inf")


def gaps_of(dimensions: list[Dimension]) -> list[Gap]:
    """The worst of each gap first, where most is filled up; then half way."""
    found: list[Gap] = []
    for dimension in dimensions:
        for low, high in pairwise((0, *dimension.sizes)):
            sizes = {size for size in (low + 1, (low + high) // 2) if low < size < high}
            found += [Gap(dimension.name, size, high) for size in sorted(sizes)]
    return found


def least_filled(dimension: Dimension, pays: set[Gap]) -> tuple[int, ...]:
    """For each size the least that is filled up to it; the size itself where none is."""
    least = []
    for low, high in pairwise((0, *dimension.sizes)):
        first, half = (Gap(dimension.name, size, high) for size in (low + 1, (low + high) // 2))
        paying = [gap.size for gap in (first, half) if gap in pays]
        # What pays where most is filled up, pays half way too.
        least.append(low + 1 if first in pays or high - low == 1 else min(paying, default=high))
    return tuple(least)


def said_of(dimension: Dimension, least: tuple[int, ...]) -> str:
    filled = [f"{low} to {high}" for low, high in zip(least, dimension.sizes, strict=True) if low < high]
    others = "others run with open shapes, which is faster"
    told = f"inputs are padded from {', '.join(filled)}" if filled else "no inputs are padded"
    return f"{dimension.name}: with buckets, {told}; {others}."


def _all(dimension: Dimension) -> tuple[int, ...]:
    return tuple(low + 1 for low, _ in pairwise((0, *dimension.sizes)))


def _measured(
    ground: Ground, shaped: Shaped, candidate: Candidate, path: Path, gaps: list[Gap]
) -> dict[Gap, float]:
    """The time filled up against that with open shapes, of those that were run often enough."""
    usual, given = {d.name: d.usual for d in shaped.dimensions}, shaped.given
    runs = []
    for place, gap in enumerate(gaps):
        sizes = {**usual, gap.dimension: gap.size}
        run = resized(given, place % len(given), range(len(given)), shaped.dimensions, sizes)
        if shaped.mask:
            run[shaped.mask] = np.ones_like(run[shaped.mask])  # else less would be computed
        runs.append(run)
    between = replace(ground, samples_path=ground.folder / "gaps")
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
        run_rounds(sides, GAPS.most, max(span_ms, slice_ms(sides[1].run_ms)))
        failure = next((side.failure for side in sides if side.failure), None)
        if failure:
            raise TrialError(failure)
        filled, plain = (by_turn(side, len(gaps)) for side in sides)
    return {
        gap: float(np.median(filled[k]) / np.median(plain[k]))
        for k, gap in enumerate(gaps)
        if min(len(filled.get(k, ())), len(plain.get(k, ()))) >= _FEWEST_RUNS
    }
