"""Floating-point values of each regime, made from ordinary ones; in float64, for the caller to round."""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
QUIET = 1e-6
VERY_QUIET = 1e-12
LOUD = 100.0
FILLED_SHARE = 0.1


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
    """One value, all else zero."""
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


def _level(ordinary: Numbers) -> float:
    """The size that its values typically have; 1 where they are all zero."""
    power = float(np.mean(np.square(ordinary))) if ordinary.size else 0.0
    return np.sqrt(power) if 0 < power < np.inf else 1.0
