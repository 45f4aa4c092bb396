"""Inputs of every kind that a model may meet; what is proved on ordinary ones alone is proved on one kind.

A regime says what becomes of ordinary floating-point values, integers and masks in it; what it says nothing of
stays as it was. A new one is a line in `REGIMES`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.backends.base import Array, TensorInfo
from edgeopt.data import regime_values as values
from edgeopt.graph.feeds import FeedLimits, generate_feeds, limits_by_input
from edgeopt.graph.masks import is_mask

if TYPE_CHECKING:
    import onnx_ir as ir

ROWS = 2
"""The size instead of one, which reveals rewrites that are right for one row only."""
TIMES = 2
MAX_ELEMENTS = 1 << 22
MAX_COUNTS = 8
"""Integers of an input that holds counts: one for each dimension at most."""
REACHES = (1.0, 0.5, 0.25)
"""Exponents of the largest value of a type: how far a model can be driven differs."""


@dataclass(frozen=True, slots=True)
class Filled:
    info: TensorInfo
    limits: FeedLimits
    array: Array

    @property
    def is_mask(self) -> bool:
        """Whether the input is a mask; a boolean one counts too, because all, none and gaps are its cases."""
        return self.limits.mask or self.array.dtype == bool or is_mask(self.info.name, self.array.ndim)

    @property
    def is_float(self) -> bool:
        # bfloat16 and the floats of 8 bits are not numpy's own types.
        return self.array.dtype.kind in "fV" or "float" in self.array.dtype.name

    @property
    def is_integer(self) -> bool:
        return self.array.dtype.kind in "iu" or self.array.dtype.name in {"int4", "uint4", "int2", "uint2"}

    @property
    def is_count(self) -> bool:
        """Whether the input may be a count, such as the turns of a Loop, the k of a TopK, sizes or repeats."""
        few = self.array.ndim <= 1 and 0 < self.array.size <= MAX_COUNTS
        place_in_table = isinstance(self.limits.integers, range) and self.limits.integers.start == 0
        return few and self.is_integer and not self.is_mask and not place_in_table

    @property
    def choices(self) -> Array:
        """The integers that the input may hold, in order: from the graph, else the range of the ordinary ones."""
        if self.limits.integers:
            return np.unique(np.asarray(self.limits.integers, np.int64))
        ordinary = self.array.astype(np.int64)
        return np.arange(ordinary.min(), ordinary.max() + 1) if ordinary.size else np.zeros(1, np.int64)


Sample = Mapping[str, Array]


def shortest(inputs: Sequence[TensorInfo], sample: Sample) -> Iterator[dict[str, Array]]:
    """Yields inputs with every open dimension at 1; none if all are 1 already or none is open."""
    yield from _resized(inputs, sample, lambda size: min(size, 1))


def longest(inputs: Sequence[TensorInfo], sample: Sample) -> Iterator[dict[str, Array]]:
    """Yields inputs with twice the size in each open dimension, except those of size 1."""
    yield from _resized(inputs, sample, lambda size: size if size == 1 else size * TIMES)


def several_rows(inputs: Sequence[TensorInfo], sample: Sample) -> Iterator[dict[str, Array]]:
    """Yields inputs with several elements along each open dimension of size 1."""
    yield from _resized(inputs, sample, lambda size: ROWS if size == 1 else size)


def no_rows(inputs: Sequence[TensorInfo], sample: Sample) -> Iterator[dict[str, Array]]:
    """Yields inputs without elements along the named first dimension."""
    rows = {info.shape[0] for info in inputs if info.shape and isinstance(info.shape[0], str)}
    yield from _resized(inputs, sample, lambda size: size, dict.fromkeys(filter(_is_name, rows), 0))


def empty(inputs: Sequence[TensorInfo], sample: Sample) -> Iterator[dict[str, Array]]:
    """Yields inputs without elements along every open dimension."""
    yield from _resized(inputs, sample, lambda _: 0)


def one_empty(inputs: Sequence[TensorInfo], sample: Sample) -> Iterator[dict[str, Array]]:
    """Yields inputs without elements along one open dimension at a time, which a model may fail at on its own."""
    dims = [(info.name, axis, dim) for info in inputs for axis, dim in enumerate(info.shape)]
    for name in dict.fromkeys(dim for _, _, dim in dims if _is_name(dim)):
        yield from _resized(inputs, sample, lambda size: size, {name: 0})
    unnamed = [(name, axis) for name, axis, dim in dims if not isinstance(dim, str) and (dim is None or dim < 0)]
    # Dimensions without a name may be the same one: a batch, for example, which comes first in all inputs.
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
    """Yields the inputs repeated or cut; an open dimension has the same size in all inputs that name it."""
    sizes = {
        str(name): fixed.get(name, size_of(size))
        for info in inputs
        for name, size in zip(info.shape, sample[info.name].shape, strict=False)
        if _is_name(name)
    }
    made = {info.name: _one(info, sample[info.name], sizes, size_of) for info in inputs if info.name in sample}
    same = all(array.shape == sample[name].shape for name, array in made.items())
    too_large = any(array.size > MAX_ELEMENTS for array in made.values())
    if not same and not too_large:
        yield {**sample, **made}


def _one(info: TensorInfo, array: Array, sizes: Mapping[str, int], size_of: Callable[[int], int]) -> Array:
    for axis, (name, size) in enumerate(zip(info.shape, array.shape, strict=False)):
        new_size = size if isinstance(name, int) and name >= 0 else _new_size(name, size, sizes, size_of)
        if new_size != size and size:
            array = array.take(np.arange(new_size) % size, axis)
    return np.asarray(array, order="C")


def _new_size(name: object, size: int, sizes: Mapping[str, int], size_of: Callable[[int], int]) -> int:
    if not isinstance(name, str):
        return size_of(size)
    parts = [part.strip() for part in name.split("+")]  # `past_sequence + 1`
    if all(part.isdecimal() or part in sizes for part in parts):
        return sum(int(part) if part.isdecimal() else sizes[part] for part in parts)
    return size_of(size)


Random = np.random.Generator


@dataclass(frozen=True, slots=True)
class Regime:
    """A distribution of inputs: the values, masks and sizes that differ from ordinary ones."""

    name: str
    floats: Callable[[values.Numbers, Random], values.Numbers] | None = None
    integers: Callable[[values.Whole, values.Whole, Random], values.Whole] | None = None
    masks: Callable[[tuple[int, ...]], values.Kept] | None = None
    sizes: Callable[[Sequence[TensorInfo], Sample], Iterator[dict[str, Array]]] | None = None
    counts: int | None = None
    """Value of integers that may be counts."""
    scores: Callable[[tuple[int, ...]], values.Numbers] | None = None
    """Values of inputs that are added before a Softmax."""
    extreme: bool = False
    """Whether floating-point values are as large as their type, or the model, allows."""
    at_edge: bool = False
    """Whether inputs hold NaN, infinity or -0, or are empty; only strict proofs judge a pass by them."""
    usual: bool = False
    """Whether the regime occurs in use, so that less precise models must be right in it too."""


REGIMES: tuple[Regime, ...] = (
    Regime("silence", values.silence, values.lowest, usual=True),
    Regime("quiet", values.quiet, usual=True),
    Regime("very quiet", values.very_quiet),
    Regime("loud", values.loud, values.highest),
    Regime("constant", values.constant, usual=True),
    Regime("impulse", values.impulse, values.integer_impulse, usual=True),
    Regime("sparse", values.sparse, usual=True),
    Regime("rising", values.rising, values.rising_integers, usual=True),
    Regime("alternating signs", values.alternating, values.alternating_integers, usual=True),
    Regime("negative", values.negative, usual=True),
    Regime("ends of the type", integers=values.ends, extreme=True),
    Regime("nothing masked", masks=values.all_kept, usual=True),
    Regime("all masked", masks=values.none_kept),
    Regime("masked in gaps", masks=values.with_gaps, usual=True),
    Regime("all but one masked", masks=values.first_kept),
    Regime("shortest", sizes=shortest),
    Regime("longest", sizes=longest),
    Regime("several rows", sizes=several_rows),
    Regime("counts of 1", counts=1),
    Regime("counts of 0", counts=0, at_edge=True),
    Regime("no rows", sizes=no_rows, at_edge=True),
    Regime("empty", sizes=empty, at_edge=True),
    Regime("NaN", values.not_numbers, at_edge=True),
    Regime("infinities", values.infinities, at_edge=True),
    Regime("minus infinity", values.minus_infinity, at_edge=True),
    Regime("masked rows of minus infinity", scores=values.masked_rows, at_edge=True),
    Regime("minus infinity in each row", scores=values.masked_ends, at_edge=True),
    Regime("one size 0", sizes=one_empty, at_edge=True),
)


@dataclass(frozen=True, slots=True)
class DistributionCase:
    """The inputs of one run in a regime."""

    regime: str
    feeds: Mapping[str, Array]
    finite_only: bool = False
    """Whether the case counts only if the source answers with finite numbers."""
    at_edge: bool = False
    """Whether inputs hold NaN, infinity or -0, or are empty."""


def cases(
    inputs: Sequence[TensorInfo], model_ir: "ir.Model | None", ordinary: Mapping[str, Array], seed: int = 0
) -> list[DistributionCase]:
    """Returns a case for each regime whose inputs differ from earlier ones, made from an ordinary sample."""
    shapes = {info.name: tuple(np.shape(ordinary[info.name])) for info in inputs}
    limits = limits_by_input(inputs, model_ir, shapes)
    filled = [Filled(info, limits[info.name], np.asarray(ordinary[info.name])) for info in inputs]
    seen = {_key(ordinary)}
    found = []
    for number, regime in enumerate(REGIMES):
        for case in _of(regime, filled, ordinary, [seed, number]):
            if (key := _key(case.feeds)) not in seen:
                seen.add(key)
                found.append(case)
    return found


def mixed(
    inputs: Sequence[TensorInfo], model_ir: "ir.Model | None", count: int, seed: int = 0
) -> list[dict[str, Array]]:
    """Returns this number of ordinary generated samples, then one for each distribution that is common in use."""
    ordinary = generate_feeds(inputs, model_ir, count, seed)
    usual = {regime.name for regime in REGIMES if regime.usual}
    return [
        *ordinary,
        *(dict(one.feeds) for one in cases(inputs, model_ir, ordinary[0], seed) if one.regime in usual),
    ]


def _of(
    regime: Regime, filled: Sequence[Filled], ordinary: Mapping[str, Array], seed: Sequence[int]
) -> Iterator[DistributionCase]:
    if regime.sizes is not None:
        for made in regime.sizes([one.info for one in filled], ordinary):
            yield DistributionCase(regime.name, made, at_edge=regime.at_edge)
        return
    if regime.counts is not None:
        counts = {one.info.name: np.full_like(one.array, regime.counts) for one in filled if one.is_count}
        # A model may refuse all of them together, and take each alone.
        for names in (tuple(counts), *([name] for name in counts)):
            feeds = {**ordinary, **{name: counts[name] for name in names}}
            yield DistributionCase(regime.name, feeds, at_edge=regime.at_edge)
        return
    floating = any(one.is_float and not one.is_mask for one in filled)
    for reach in REACHES if regime.extreme and floating else (0.0,):
        random = np.random.default_rng(seed)
        feeds = {one.info.name: _values(regime, one, reach, random) for one in filled}
        yield DistributionCase(regime.name, {**ordinary, **feeds}, finite_only=reach > 0, at_edge=regime.at_edge)


def _values(regime: Regime, one: Filled, reach: float, random: Random) -> Array:
    array = one.array
    if one.limits.scores and regime.scores is not None:
        return regime.scores(array.shape).astype(array.dtype)
    if one.is_mask:
        kept = regime.masks(array.shape) if regime.masks is not None else array
        return np.array(kept, array.dtype, order="C")
    if one.is_float and (reach or regime.floats is not None):
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(_floats(regime, array, reach, random)).astype(array.dtype)
    if one.is_integer and regime.integers is not None:
        return regime.integers(array.astype(np.int64), one.choices, random).astype(array.dtype)
    return array


def _floats(regime: Regime, array: Array, reach: float, random: Random) -> Array:
    if regime.floats is not None:
        return regime.floats(array.astype(np.float64), random)
    signs = np.where(random.random(array.shape) < 0.5, -1.0, 1.0)
    return np.asarray(signs * _largest(array.dtype) ** reach)


def _largest(dtype: "np.dtype[Any]") -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]


def _key(feeds: Mapping[str, Array]) -> tuple[object, ...]:
    return tuple((name, np.shape(array), np.asarray(array).tobytes()) for name, array in sorted(feeds.items()))
