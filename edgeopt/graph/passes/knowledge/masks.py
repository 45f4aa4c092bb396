"""How much of padded sequences is computed where what a mask leaves out is skipped."""

from typing import Any, Protocol

from numpy.typing import NDArray

from edgeopt.graph.masks import used_length

STEP = 16
"""Lengths are cut to multiples of this, the rows of a kernel block; few lengths also mean few shapes."""
_MOST_LOOKED_AT = 256


class Runs(Protocol):
    """Samples, as `edgeopt.data.Samples` holds them."""

    def __len__(self) -> int: ...
    def feeds(self, index: int) -> dict[str, NDArray[Any]]: ...


def kept_length(mask: NDArray[Any]) -> int:
    """The number of computed places of each row; all of them if a row has no mask."""
    whole = int(mask.shape[1])
    used = used_length(mask)
    return whole if used is None else min(whole, -(-used // STEP) * STEP)


def kept_share(samples: Runs, mask: str) -> float:
    """How much of all places is computed, by the first samples; 1 where there are none."""
    masks = [samples.feeds(index)[mask] for index in range(min(len(samples), _MOST_LOOKED_AT))]
    whole = sum(each.shape[1] for each in masks)
    return sum(kept_length(each) for each in masks) / whole if whole else 1.0
