"""Inputs that say which places of a sequence hold something, and which only fill it up."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

STEP = 16
"""Lengths are cut to multiples of this: kernels compute so many rows at once, and few lengths means few shapes."""
_WORD = "mask"
_RANK = 2


def is_mask(name: str, rank: int) -> bool:
    """Rows of ones and zeros, as tokenizers give them; whether it is one in truth, only a proof can tell."""
    return rank == _RANK and _WORD in name.lower()


def kept_length(mask: NDArray[Any]) -> int:
    """So many places of each row are computed: up to the last that any row needs, in steps.

    A row of nothing but zeros tells nothing, and all of it is kept.
    """
    held, whole = mask.astype(bool), int(mask.shape[1])
    if not held.size or not held.any(axis=1).all():
        return whole
    last = whole - 1 - int(held[:, ::-1].argmax(axis=1).min())
    return min(whole, (last + STEP) // STEP * STEP)


def kept_share(masks: Sequence[NDArray[Any]]) -> float:
    """How much of all places is computed where padding is skipped."""
    whole = sum(mask.shape[1] for mask in masks)
    return sum(kept_length(mask) for mask in masks) / whole if whole else 1.0
