"""Masks of padded sequences (rows of ones and zeros, as tokenizers produce), and the length to compute."""

from typing import Any, Protocol

from numpy.typing import NDArray

_WORD = "mask"
_RANK = 2


def is_mask(name: str, rank: int) -> bool:
    """Whether the name and rank of an input suggest a mask; only a proof can confirm it."""
    return rank == _RANK and _WORD in name.lower()


def used_length(mask: NDArray[Any]) -> int | None:
    """Returns the length up to the last one of any row; None if some row has no ones."""
    held = mask.astype(bool)
    if not held.size or not held.any(axis=1).all():
        return None
    return int(held.shape[1] - held[:, ::-1].argmax(axis=1).min())


STEP = 16
"""Multiple to which lengths are rounded up, the rows of a kernel block; few lengths also mean few shapes."""
_MAX_LOOKED_AT = 256


class MaskRuns(Protocol):
    """The interface of samples, as `edgeopt.data.Samples` implements it."""

    def __len__(self) -> int: ...
    def feeds(self, index: int) -> dict[str, NDArray[Any]]: ...


def kept_length(mask: NDArray[Any]) -> int:
    """Returns the number of computed positions of each row; all of them if a row has no mask."""
    whole = int(mask.shape[1])
    used = used_length(mask)
    return whole if used is None else min(whole, -(-used // STEP) * STEP)


def kept_share(samples: MaskRuns, mask: str) -> float:
    """Returns the share of positions that is computed, estimated from the first samples; 1 without samples."""
    masks = [samples.feeds(index)[mask] for index in range(min(len(samples), _MAX_LOOKED_AT))]
    whole = sum(each.shape[1] for each in masks)
    return sum(kept_length(each) for each in masks) / whole if whole else 1.0
