"""What is kept of how a contender ran, so that a report can draw it."""

import msgspec
import numpy as np

from edgeopt.measure.contender import Contender

# As many points as tell how latencies lie, with the median and whole percents among them.
_QUANTILES = 101


class Taken(msgspec.Struct, frozen=True):
    """How one side of a contest ran."""

    slices_ms: tuple[float, ...]
    """The median of each round that counts; both sides have the same rounds."""
    runs: int = 0
    quantiles_ms: tuple[float, ...] = ()
    """Of the single runs in these rounds, from the quickest to the slowest in even steps; of many, the last."""
    load_ms: float | None = None
    first_run_ms: float | None = None


def taken_by(contender: Contender) -> Taken:
    """Of a contender whose latencies were emptied when it was warm."""
    runs = contender.latencies_ms
    spread = np.quantile(runs, np.linspace(0, 1, _QUANTILES)).tolist() if runs else []
    return Taken(
        tuple(map(_four_digits, contender.slices_ms)),
        len(runs),
        tuple(map(_four_digits, spread)),
        _four_digits(contender.loaded.load_ms),
        _four_digits(contender.loaded.first_run_ms),
    )


def _four_digits(value: float) -> float:
    return float(f"{value:.4g}")
