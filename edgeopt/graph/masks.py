"""Masks of sequences, as tokenizers give them: a row of ones and zeros, which says what holds something."""

from typing import Any

from numpy.typing import NDArray

_WORD = "mask"
_RANK = 2


def is_mask(name: str, rank: int) -> bool:
    """By what it is called; whether it is one in truth, only a proof can tell."""
    return rank == _RANK and _WORD in name.lower()


def used_length(mask: NDArray[Any]) -> int | None:
    """Up to the last place that any row holds; None where a row holds nothing, and so tells nothing."""
    held = mask.astype(bool)
    if not held.size or not held.any(axis=1).all():
        return None
    return int(held.shape[1] - held[:, ::-1].argmax(axis=1).min())
