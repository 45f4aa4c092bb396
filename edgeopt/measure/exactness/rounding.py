"""Comparison of two answers that allows for rounding.

Answers that are close everywhere need no further test. Otherwise the source shows the effect of rounding on it:
it runs again with every input and weight moved by about one unit in the last place, and without the runtime's
own optimizer. A rewrite may move a result a few times as far, but no further. NaN and infinity must be at the
same places as in the source's answer; rounding never explains them.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgeopt.graph.accuracy import flat

if TYPE_CHECKING:
    import onnx_ir as ir

Array = NDArray[Any]
Answer = Mapping[str, Any]

ALIKE = 1e-4
"""Difference that needs no explanation, relative to the value or to the output's root mean square."""
TIMES = 16.0
"""Allowed multiple of the spread by rounding: a rewrite may add in an order that no variant covers."""
LAST_PLACES = 2.0
FEWEST_ALIKE = 16
MOVED = (
    *("Add", "Sub", "Mul", "Div", "Sum", "MatMul", "Gemm", "Einsum", "Conv", "ConvTranspose", "PRelu"),
    *("LSTM", "GRU", "RNN"),
    *("BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization"),
)
"""The operators whose weights are moved; the weights of others may be sizes, indices or exponents."""
MAX_MOVED_BYTES = 256 << 20
"""Largest size of weights that are moved; in a larger model only the inputs are."""


def difference(expected: Answer, got: Answer, others: Sequence[Answer] = ()) -> str | None:
    """Describes the first output that differs, or returns None; `others` are answers that rounding can give."""
    flat_expected, flat_got = flat(expected), flat(got)
    flat_others = [flat(one) for one in others]
    for name, array in flat_expected.items():
        if name not in flat_got:
            return f"the output '{name}' is missing"
        problem = _of_one(np.asarray(array), np.asarray(flat_got[name]), [one.get(name) for one in flat_others])
        if problem is not None:
            return f"the output '{name}' {problem}"
    return None


def excess(expected: Answer, got: Answer) -> float:
    """Returns the largest difference in multiples of its limit; infinite for differences of another kind."""
    flat_expected, flat_got = flat(expected), flat(got)
    farthest = 0.0
    for name, array in flat_expected.items():
        a, b = np.asarray(array), np.asarray(flat_got.get(name))
        if a.dtype.kind in "OUSbiu" or a.shape != b.shape or not np.isfinite(b.astype(np.float64)).all():
            farthest = max(farthest, np.inf if difference({name: a}, {name: b}) else 0.0)
            continue
        numbers = np.nan_to_num(a.astype(np.float64))
        limit = ALIKE * np.maximum(np.abs(numbers), _typical(np.abs(numbers)))
        apart = np.abs(numbers - b.astype(np.float64))
        farthest = max(farthest, float(np.max(apart / np.maximum(limit, np.finfo(np.float64).tiny), initial=0.0)))
    return farthest


def _of_one(expected: Array, got: Array, others: "Sequence[Array | None]") -> str | None:
    same_kind = [np.asarray(one) for one in others if one is not None and np.shape(one) == expected.shape]
    if expected.shape != got.shape:
        unsteady = len(same_kind) < len(others)
        return None if unsteady else f"has the shape {list(got.shape)} instead of {list(expected.shape)}"
    if expected.dtype.kind in "OUS":
        return None if np.array_equal(expected, got) else "holds other texts"
    if expected.dtype.kind in "biu":
        steady = np.ones(expected.shape, bool)
        for one in same_kind:
            steady &= one == expected
        wrong = (expected != got) & steady
        return f"differs in {_count(wrong)}" if wrong.any() else None
    return _of_numbers(expected, got, same_kind)


def _of_numbers(expected: Array, got: Array, others: Sequence[Array]) -> str | None:
    if _alike_at_once(expected, got):
        return None
    a, b = expected.astype(np.float64), got.astype(np.float64)
    moved = np.isfinite(a) != np.isfinite(b)
    moved |= ~np.isfinite(a) & ~np.isfinite(b) & (np.isnan(a) != np.isnan(b))
    moved |= np.isinf(a) & np.isinf(b) & (np.sign(a) != np.sign(b))
    if moved.any():
        place = np.unravel_index(int(np.argmax(moved)), moved.shape)
        return f"has {b[place]:.4g} where the source has {a[place]:.4g}, in {_count(moved)}"
    held = np.isfinite(a)
    size, apart = np.abs(np.where(held, a, 0.0)), np.abs(np.where(held, a, 0.0) - np.where(held, b, 0.0))
    typical = _typical(size[held])
    allowed = ALIKE * np.maximum(size, typical)
    if (apart > allowed).any() and others:
        spread = _spread(np.where(held, a, 0.0), held, others)
        own = _unit(expected.dtype) * size
        allowed = np.maximum(allowed, TIMES * (spread + own))
        doubtful = apart > allowed
        if doubtful.any():
            allowed = np.maximum(allowed, TIMES * (_usual(spread, size, doubtful) + own))
    wrong = apart > allowed
    if not wrong.any():
        return None
    place = np.unravel_index(int(np.argmax(np.where(wrong, apart, -1.0))), wrong.shape)
    return f"has {b[place]:.6g} where the source has {a[place]:.6g}, beyond rounding in {_count(wrong)}"


def _alike_at_once(expected: Array, got: Array) -> bool:
    """Whether all values are finite and close, tested without a conversion, because most answers are."""
    if expected.dtype != got.dtype or expected.dtype not in (np.float32, np.float64):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        size, apart = np.abs(expected), np.abs(expected - got)
        # An infinity or NaN on either side is not less than any limit.
        limit = ALIKE * np.maximum(size, expected.dtype.type(_typical(size)))
        return bool((apart <= limit).all()) and bool(np.isfinite(expected).all())


def _spread(expected: Array, held: Array, others: Sequence[Array]) -> Array:
    """Returns the largest distance of each value to its values in other answers; infinite if one is not finite."""
    spread = np.zeros_like(expected)
    for one in others:
        other = one.astype(np.float64)
        apart = np.abs(np.where(np.isfinite(other), other, np.inf) - expected)
        spread = np.maximum(spread, np.where(held, apart, 0.0))
    return spread


def _usual(spread: Array, size: Array, doubtful: Array) -> Array:
    """Returns the 90 % quantile of the spread of values of similar size, where values are doubtful.

    A single value may have moved less by chance.
    """
    usual = np.zeros_like(spread)
    finite = np.isfinite(spread) & (spread > 0)
    if not finite.any():
        return usual
    usual[:] = np.quantile(spread[finite], 0.5)
    binades = np.frexp(size)[1]
    for binade in np.unique(binades[finite & doubtful]):
        alike = binades == binade
        moves = spread[alike & finite]
        if moves.size >= FEWEST_ALIKE:
            usual[alike] = np.quantile(moves, 0.9)
    return usual


def _typical(values: Array) -> float:
    """Returns the root mean square of values whose squares may overflow their type."""
    largest = float(values.max(initial=0.0))
    return largest * float(np.sqrt(np.mean(np.square(values / largest)))) if largest else 0.0


def _unit(dtype: "np.dtype[Any]") -> float:
    """Returns the distance from 1 to the next larger number."""
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]


def _count(wrong: Array) -> str:
    return f"{int(np.count_nonzero(wrong)):,} of {wrong.size:,} values"


def moved_feeds(feeds: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """Returns the inputs with each floating-point value moved up or down by about a unit in its last place."""
    random = np.random.default_rng(seed)
    return {name: _moved(np.asarray(array), random) for name, array in feeds.items()}


def moved_model(model_ir: "ir.Model", seed: int) -> "ir.Model":
    """Returns a copy of the model with each weight that is computed with moved like `moved_feeds`."""
    import onnx_ir as ir
    from onnx_ir.passes import common

    copy = model_ir.clone()
    common.LiftConstantsToInitializersPass(lift_all_constants=False, size_limit=0)(copy)
    weights = [w for part in copy.graphs() for w in part.initializers.values() if _computes(w)]
    if sum(w.const_value.nbytes for w in weights) <= MAX_MOVED_BYTES:
        random = np.random.default_rng(seed)
        for weight in weights:
            array = _moved(weight.const_value.numpy(), random)
            weight.const_value = ir.tensor(array, dtype=weight.const_value.dtype, name=weight.name)
    return copy


def _computes(weight: "ir.Value") -> bool:
    held = weight.const_value
    return (
        held is not None
        and held.dtype.is_floating_point()
        and bool(weight.uses())
        and all(use.node.op_type in MOVED and not use.node.domain for use in weight.uses())
    )


def _moved(array: Array, random: np.random.Generator) -> Array:
    if array.dtype.kind not in "fV" and "float" not in array.dtype.name:
        return array
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        share = random.choice((-1, 1), array.shape) * random.uniform(1, LAST_PLACES, array.shape)
        made = np.asarray(array.astype(np.float64) * (1 + share * _unit(array.dtype))).astype(array.dtype)
    return np.where(np.isfinite(made.astype(np.float64)), made, array)
