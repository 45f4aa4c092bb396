"""The latency of every run of a long watch: percentiles of the last seconds and of all of it, at a fixed cost."""

from collections import deque

import msgspec
import numpy as np
from numpy.typing import NDArray

# Logarithmic bins a fifth of a percent wide, from 100 ns to a quarter of an hour: no clock here is better.
_FIRST_MS = 1e-4
_STEP = 0.002
_BINS = 11_500
WINDOW_S = 10.0
_QUANTILES = (0.5, 0.9, 0.99)


class Percentiles(msgspec.Struct, frozen=True):
    """Over how many runs, and the latencies that half, 90 % and 99 % of them stay within."""

    runs: int
    p50_ms: float
    p90_ms: float
    p99_ms: float


class Latencies:
    """Counts by latency, for the last `window_s` and for ever."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._ticks: deque[tuple[float, NDArray[np.int64]]] = deque()
        self._recent = np.zeros(_BINS, np.int64)
        self._all = np.zeros(_BINS, np.int64)

    def add(self, time_s: float, latencies_ms: NDArray[np.float32]) -> None:
        """The runs of one tick that ended at `time_s`, on any clock that only goes on."""
        bins = np.log(np.maximum(latencies_ms, _FIRST_MS) / _FIRST_MS) / _STEP
        places, counts = np.unique(np.minimum(bins, _BINS - 1).astype(np.int64), return_counts=True)
        self._recent[places] += counts
        self._all[places] += counts
        # Few runs of a tick fall into unlike bins, so a window of any speed takes little memory.
        self._ticks.append((time_s, np.stack([places, counts])))
        while self._ticks and self._ticks[0][0] <= time_s - self._window_s:
            old = self._ticks.popleft()[1]
            self._recent[old[0]] -= old[1]

    def recent(self) -> Percentiles | None:
        """Of the window; None while no run has ended in it."""
        return _percentiles(self._recent)

    def all(self) -> Percentiles | None:
        """Of everything since the beginning."""
        return _percentiles(self._all)


def _percentiles(counts: NDArray[np.int64]) -> Percentiles | None:
    below = np.cumsum(counts)
    total = int(below[-1])
    if total == 0:
        return None
    places = np.searchsorted(below, np.ceil(np.multiply(_QUANTILES, total)))
    p50, p90, p99 = (float(_FIRST_MS * np.exp((place + 0.5) * _STEP)) for place in places)
    return Percentiles(total, p50, p90, p99)
