"""Integers of each regime, drawn from the choices that an input has, which are in order."""

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]


def lowest(ordinary: Whole, choices: Whole, random: np.random.Generator) -> Whole:  # noqa: ARG001 - one signature
    return np.full_like(ordinary, choices[0])


def highest(ordinary: Whole, choices: Whole, random: np.random.Generator) -> Whole:  # noqa: ARG001
    return np.full_like(ordinary, choices[-1])


def impulse(ordinary: Whole, choices: Whole, random: np.random.Generator) -> Whole:
    made = lowest(ordinary, choices, random)
    if made.size:
        made.reshape(-1)[random.integers(made.size)] = choices[-1]
    return made


def rising(ordinary: Whole, choices: Whole, random: np.random.Generator) -> Whole:
    drawn = random.choice(choices, size=ordinary.shape)
    return np.sort(drawn, axis=None).reshape(ordinary.shape)


def alternating(ordinary: Whole, choices: Whole, random: np.random.Generator) -> Whole:  # noqa: ARG001
    odd = np.arange(ordinary.size).reshape(ordinary.shape) % 2
    return np.asarray(np.where(odd, choices[-1], choices[0]))


def ends(ordinary: Whole, choices: Whole, random: np.random.Generator) -> Whole:
    """The lowest and the highest, mixed."""
    low = random.random(ordinary.shape) < 0.5
    return np.asarray(np.where(low, choices[0], choices[-1]))
