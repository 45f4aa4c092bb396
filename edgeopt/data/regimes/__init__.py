"""Inputs of every kind that a model may meet; what is proved on ordinary ones alone is proved on one kind.

A regime says what becomes of ordinary floating-point values, integers and masks in it; what it says nothing of
stays as it was. A new one is a line in `REGIMES`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.backends.base import Array, TensorInfo
from edgeopt.data.regimes import floats, integers, masks, sizes
from edgeopt.data.regimes.filled import Filled
from edgeopt.graph.feeds import generate_feeds, limits_by_input

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = ["REGIMES", "Case", "Regime", "cases", "mixed"]

Random = np.random.Generator


@dataclass(frozen=True, slots=True)
class Regime:
    """What the inputs are like."""

    name: str
    floats: "Callable[[floats.Numbers, Random], floats.Numbers] | None" = None
    integers: "Callable[[integers.Whole, integers.Whole, Random], integers.Whole] | None" = None
    masks: "Callable[[tuple[int, ...]], masks.Kept] | None" = None
    sizes: "Callable[[Sequence[TensorInfo], sizes.Sample], Iterator[dict[str, Array]]] | None" = None
    extreme: bool = False
    """Floating-point values as large as their type holds, or as the model can bear."""
    at_edge: bool = False
    """NaN, infinity, -0, or no element at all: a pass need not keep them, but in strict proofs."""
    usual: bool = False
    """A model meets it in use, so that a less precise one must hold there too, not only an exact rewrite."""


REGIMES: tuple[Regime, ...] = (
    Regime("silence", floats.silence, integers.lowest, usual=True),
    Regime("quiet", floats.quiet, usual=True),
    Regime("very quiet", floats.very_quiet),
    Regime("loud", floats.loud, integers.highest),
    Regime("constant", floats.constant, usual=True),
    Regime("impulse", floats.impulse, integers.impulse, usual=True),
    Regime("sparse", floats.sparse, usual=True),
    Regime("rising", floats.rising, integers.rising, usual=True),
    Regime("alternating signs", floats.alternating, integers.alternating, usual=True),
    Regime("negative", floats.negative, usual=True),
    Regime("ends of the type", integers=integers.ends, extreme=True),
    Regime("nothing masked", masks=masks.all_kept, usual=True),
    Regime("all masked", masks=masks.none_kept),
    Regime("masked in gaps", masks=masks.with_gaps, usual=True),
    Regime("all but one masked", masks=masks.first_kept),
    Regime("shortest", sizes=sizes.shortest),
    Regime("longest", sizes=sizes.longest),
    Regime("several rows", sizes=sizes.several_rows),
    Regime("no rows", sizes=sizes.no_rows, at_edge=True),
    Regime("empty", sizes=sizes.empty, at_edge=True),
    Regime("NaN", floats.not_numbers, at_edge=True),
    Regime("infinities", floats.infinities, at_edge=True),
    Regime("minus infinity", floats.minus_infinity, at_edge=True),
    Regime("one size 0", sizes=sizes.one_empty, at_edge=True),
)

REACHES = (1.0, 0.5, 0.25)
"""Exponents of the largest value of a type: how far a model can be driven differs."""


@dataclass(frozen=True, slots=True)
class Case:
    """The inputs of one run."""

    regime: str
    feeds: Mapping[str, Array]
    finite_only: bool = False
    """It counts only where the source answers with numbers."""
    at_edge: bool = False
    """Its inputs are NaN, infinite or -0 in places, or empty."""


def cases(
    inputs: Sequence[TensorInfo], model_ir: "ir.Model | None", ordinary: Mapping[str, Array], seed: int = 0
) -> list[Case]:
    """One for each regime in which these inputs are not what they are in another, made from an ordinary sample."""
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
    """This number of ordinary generated samples, then one for each input distribution that is common in use."""
    ordinary = generate_feeds(inputs, model_ir, count, seed)
    usual = {regime.name for regime in REGIMES if regime.usual}
    return [
        *ordinary,
        *(dict(one.feeds) for one in cases(inputs, model_ir, ordinary[0], seed) if one.regime in usual),
    ]


def _of(
    regime: Regime, filled: Sequence[Filled], ordinary: Mapping[str, Array], seed: Sequence[int]
) -> Iterator[Case]:
    if regime.sizes is not None:
        for made in regime.sizes([one.info for one in filled], ordinary):
            yield Case(regime.name, made, at_edge=regime.at_edge)
        return
    floating = any(one.is_float and not one.is_mask for one in filled)
    for reach in REACHES if regime.extreme and floating else (0.0,):
        random = np.random.default_rng(seed)
        feeds = {one.info.name: _values(regime, one, reach, random) for one in filled}
        yield Case(regime.name, {**ordinary, **feeds}, finite_only=reach > 0, at_edge=regime.at_edge)


def _values(regime: Regime, one: Filled, reach: float, random: Random) -> Array:
    array = one.array
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
