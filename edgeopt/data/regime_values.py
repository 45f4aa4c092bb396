"""Values of each regime: floating-point ones in float64, for the caller to round; integers; masks."""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
QUIET = 1e-6
VERY_QUIET = 1e-12
LOUD = 100.0
FILLED_SHARE = 0.1
ODD_SHARE = 0.5


def silence(ordinary: Numbers, random: np.random.Generator) -> Numbers:  # noqa: ARG001 - one signature for all
    return np.zeros_like(ordinary)


def quiet(ordinary: Numbers, random: np.random.Generator) -> Numbers:  # noqa: ARG001
    return ordinary * (QUIET / _level(ordinary))


def very_quiet(ordinary: Numbers, random: np.random.Generator) -> Numbers:  # noqa: ARG001
    return ordinary * (VERY_QUIET / _level(ordinary))


def loud(ordinary: Numbers, random: np.random.Generator) -> Numbers:  # noqa: ARG001
    return ordinary * LOUD


def constant(ordinary: Numbers, random: np.random.Generator) -> Numbers:  # noqa: ARG001
    return np.full_like(ordinary, _level(ordinary))


def impulse(ordinary: Numbers, random: np.random.Generator) -> Numbers:
    """Returns zeros with one value of the ordinary level."""
    made = np.zeros_like(ordinary)
    if made.size:
        made.reshape(-1)[random.integers(made.size)] = _level(ordinary)
    return made


def sparse(ordinary: Numbers, random: np.random.Generator) -> Numbers:
    return np.where(random.random(ordinary.shape) < FILLED_SHARE, ordinary, 0.0)


def rising(ordinary: Numbers, random: np.random.Generator) -> Numbers:  # noqa: ARG001
    return np.sort(ordinary, axis=None).reshape(ordinary.shape)


def alternating(ordinary: Numbers, random: np.random.Generator) -> Numbers:  # noqa: ARG001
    signs = np.where(np.arange(ordinary.size) % 2, -1.0, 1.0).reshape(ordinary.shape)
    return np.abs(ordinary) * signs


def negative(ordinary: Numbers, random: np.random.Generator) -> Numbers:  # noqa: ARG001
    return -np.abs(ordinary)


def not_numbers(ordinary: Numbers, random: np.random.Generator) -> Numbers:
    """Returns ordinary values with a tenth, and at least one, replaced by NaN."""
    made = np.where(random.random(ordinary.shape) < FILLED_SHARE, np.nan, ordinary)
    if made.size:
        made.reshape(-1)[random.integers(made.size)] = np.nan
    return made


def infinities(ordinary: Numbers, random: np.random.Generator) -> Numbers:
    """Returns the ordinary values with about half replaced by infinity, minus infinity or -0."""
    odd = random.choice(np.array([np.inf, -np.inf, -0.0]), ordinary.shape)
    return np.where(random.random(ordinary.shape) < ODD_SHARE, odd, ordinary)


def minus_infinity(ordinary: Numbers, random: np.random.Generator) -> Numbers:
    """Returns minus infinity, the largest value of the first half; the second half also has -0."""
    late = np.arange(ordinary.size).reshape(ordinary.shape) >= ordinary.size // 2
    return np.where(late & (random.random(ordinary.shape) < ODD_SHARE), -0.0, -np.inf)


def masked_rows(shape: tuple[int, ...]) -> Numbers:
    """Returns minus infinity in every second row, the first among them, and 0 in the others."""
    made = np.zeros(shape)
    if made.size:
        made.reshape(-1, shape[-1] if shape else 1)[::2] = -np.inf
    return made


def masked_ends(shape: tuple[int, ...]) -> Numbers:
    """Returns minus infinity in the second half of each row, and 0 in the first."""
    made = np.zeros(shape)
    if made.ndim:
        made[..., (shape[-1] + 1) // 2 :] = -np.inf
    return made


def _level(ordinary: Numbers) -> float:
    """Returns the root mean square of the values; 1 if it is 0 or infinite."""
    power = float(np.mean(np.square(ordinary))) if ordinary.size else 0.0
    return np.sqrt(power) if 0 < power < np.inf else 1.0


Whole = NDArray[np.int64]


def lowest(ordinary: Whole, choices: Whole, random: np.random.Generator) -> Whole:  # noqa: ARG001 - one signature
    return np.full_like(ordinary, choices[0])


def highest(ordinary: Whole, choices: Whole, random: np.random.Generator) -> Whole:  # noqa: ARG001
    return np.full_like(ordinary, choices[-1])


def integer_impulse(ordinary: Whole, choices: Whole, random: np.random.Generator) -> Whole:
    made = lowest(ordinary, choices, random)
    if made.size:
        made.reshape(-1)[random.integers(made.size)] = choices[-1]
    return made


def rising_integers(ordinary: Whole, choices: Whole, random: np.random.Generator) -> Whole:
    drawn = random.choice(choices, size=ordinary.shape)
    return np.sort(drawn, axis=None).reshape(ordinary.shape)


def alternating_integers(ordinary: Whole, choices: Whole, random: np.random.Generator) -> Whole:  # noqa: ARG001
    odd = np.arange(ordinary.size).reshape(ordinary.shape) % 2
    return np.asarray(np.where(odd, choices[-1], choices[0]))


def ends(ordinary: Whole, choices: Whole, random: np.random.Generator) -> Whole:
    """Returns the lowest and the highest choice in random order."""
    low = random.random(ordinary.shape) < 0.5
    return np.asarray(np.where(low, choices[0], choices[-1]))


Kept = NDArray[np.bool_]


def all_kept(shape: tuple[int, ...]) -> Kept:
    return np.ones(shape, bool)


def none_kept(shape: tuple[int, ...]) -> Kept:
    return np.zeros(shape, bool)


def with_gaps(shape: tuple[int, ...]) -> Kept:
    """Returns a mask that excludes every third position, but never the first."""
    if not shape:
        return np.ones(shape, bool)
    place = np.arange(shape[-1])
    return np.broadcast_to((place % 3 != 1) | (place == 0), shape)


def first_kept(shape: tuple[int, ...]) -> Kept:
    """Returns a mask that keeps only the first position along the last axis."""
    return np.broadcast_to(np.arange(shape[-1]) < 1, shape) if shape else np.ones(shape, bool)
