"""Masks of each regime: ones where something counts."""

import numpy as np
from numpy.typing import NDArray

Kept = NDArray[np.bool_]


def all_kept(shape: tuple[int, ...]) -> Kept:
    return np.ones(shape, bool)


def none_kept(shape: tuple[int, ...]) -> Kept:
    return np.zeros(shape, bool)


def with_gaps(shape: tuple[int, ...]) -> Kept:
    """Every third is left out, the first never."""
    if not shape:
        return np.ones(shape, bool)
    place = np.arange(shape[-1])
    return np.broadcast_to((place % 3 != 1) | (place == 0), shape)


def first_kept(shape: tuple[int, ...]) -> Kept:
    """Only the first along the last axis."""
    return np.broadcast_to(np.arange(shape[-1]) < 1, shape) if shape else np.ones(shape, bool)
