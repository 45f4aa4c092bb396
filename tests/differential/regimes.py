"""What a model is fed: several ways in which numbers can look, for several sizes of its open dimensions."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Input:
    """One input of a model; named dimensions are open."""

    name: str
    dtype: type
    dims: tuple[int | str, ...]
    high: int = 5
    """Integers lie below it."""
    choices: tuple[int, ...] = ()
    """Integers are one of these, by turns, where there are any."""

    def shape(self, sizes: dict[str, int]) -> Shape:
        return tuple(sizes[d] if isinstance(d, str) else d for d in self.dims)


SIZES = (
    {"batch": 2, "length": 3},
    {"batch": 1, "length": 4},
    {"batch": 0, "length": 3},
    {"batch": 2, "length": 0},
)
"""Of open dimensions; a batch of one broadcasts where one of two does not."""

TRIPS = (2, 0, 5)
"""How often a loop runs whose count is an input."""


def _ordinary(random: np.random.Generator, shape: Shape) -> np.ndarray:
    return random.standard_normal(shape)


def _one_hot(random: np.random.Generator, shape: Shape) -> np.ndarray:
    array = np.zeros(shape)
    if array.size:
        array.reshape(-1)[int(random.integers(array.size))] = 1
    return array


def _alternating(random: np.random.Generator, shape: Shape) -> np.ndarray:
    signs = np.where(np.arange(np.prod(shape)) % 2, -1.0, 1.0).reshape(shape)
    return signs * np.abs(random.standard_normal(shape))


def _sparse(random: np.random.Generator, shape: Shape) -> np.ndarray:
    return random.standard_normal(shape) * (random.random(shape) < 0.3)


def _not_numbers(random: np.random.Generator, shape: Shape) -> np.ndarray:
    return np.where(random.random(shape) < 0.2, np.nan, random.standard_normal(shape))


def _infinities(random: np.random.Generator, shape: Shape) -> np.ndarray:
    odd = random.choice(np.array([np.inf, -np.inf, -0.0]), shape)
    return np.where(random.random(shape) < 0.4, odd, random.standard_normal(shape))


REGIMES: tuple[tuple[str, Callable[[np.random.Generator, Shape], np.ndarray]], ...] = (
    ("ordinary", _ordinary),
    ("zeros", lambda _random, shape: np.zeros(shape)),
    ("1e-6", lambda random, shape: random.standard_normal(shape) * 1e-6),
    ("1e-12", lambda random, shape: random.standard_normal(shape) * 1e-12),
    ("times 100", lambda random, shape: random.standard_normal(shape) * 100),
    ("constant", lambda random, shape: np.full(shape, random.standard_normal())),
    ("one hot", _one_hot),
    ("alternating", _alternating),
    ("sparse", _sparse),
    ("NaN", _not_numbers),
    ("infinities and -0", _infinities),
)
NOT_FINITE = frozenset({"NaN", "infinities and -0"})


def feeds(inputs: tuple[Input, ...], regime: int, size: int = 0) -> dict[str, np.ndarray]:
    """A sample; the same for the same numbers."""
    name, numbers = REGIMES[regime]
    random = np.random.default_rng([regime, size])
    return {one.name: _fed(one, numbers, name, random, one.shape(SIZES[size]), regime) for one in inputs}


def _fed(
    one: Input, numbers: Callable, name: str, random: np.random.Generator, shape: Shape, regime: int
) -> np.ndarray:
    kind = np.dtype(one.dtype).kind
    if kind == "b":
        return np.asarray(random.random(shape) < 0.5 if shape else regime % 2 == 1)
    if one.choices:
        return np.full(shape, one.choices[regime % len(one.choices)], one.dtype)
    if kind in "iu":
        if name in {"zeros", "constant"}:
            return np.full(shape, 0 if name == "zeros" else one.high - 1, one.dtype)
        return random.integers(0, one.high, shape).astype(one.dtype)
    return np.asarray(numbers(random, shape), one.dtype)
