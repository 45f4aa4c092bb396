"""The latencies of single runs: the latest of them, and their distribution between two times."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgeopt_gui.plots.ring import Floats, Numbers

# The runs of two minutes at 2,000 a second, in 6 MiB.
CAPACITY = 2**18
FEWEST_FOR_P999 = 1000
_PERCENTILES = (("p50", 50.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9))
_BINS = 60
_SMALLEST_MS = 1e-6
# Widens a narrow range, so that nearly equal runs form a peak in the middle and not one bar over the chart.
_NARROWEST = 2.0


@dataclass(frozen=True, slots=True)
class Distribution:
    runs: int
    low_ms: float
    high_ms: float
    counts: Numbers
    """Number of runs in each bin; the bins have equal factors from `low_ms` to `high_ms`."""
    percentiles: tuple[tuple[str, float], ...]
    """Label and latency of each percentile; p99.9 only of enough runs."""
    since_s: float | None
    """End of the oldest run in the range, if older ones are no longer stored; None otherwise."""

    @property
    def runs_missing(self) -> int:
        """The number of further runs that p99.9 needs."""
        return max(0, FEWEST_FOR_P999 - self.runs)


class Runs:
    """The latest runs, written twice as in `Ring`, so that any stretch of them is one slice."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self._times = np.empty(2 * capacity)
        self._latencies_ms = np.empty(2 * capacity, np.float32)
        self._count = 0

    def add(self, time_s: float, latencies_ms: Sequence[float]) -> None:
        """Runs that ended by this time, which must not step back."""
        new = np.asarray(latencies_ms[-self.capacity :], np.float32)
        places = (self._count + np.arange(len(new))) % self.capacity
        for copy in (places, places + self.capacity):
            self._times[copy] = time_s
            self._latencies_ms[copy] = new
        self._count += len(new)

    def clear(self) -> None:
        self._count = 0

    def over(self, limit_ms: float, begin_s: float, end_s: float) -> tuple[int, int]:
        """Returns how many runs between two times took longer than the limit, and how many there were in total."""
        latencies_ms = self._latencies_ms[self._between(begin_s, end_s)]
        return int(np.count_nonzero(latencies_ms > np.float32(limit_ms))), len(latencies_ms)

    def distribution(self, begin_s: float, end_s: float) -> Distribution | None:
        """Returns the distribution of the runs that ended between two times; None if there are none."""
        part = self._between(begin_s, end_s)
        latencies_ms: Floats = np.maximum(self._latencies_ms[part].astype(float), _SMALLEST_MS)
        if not len(latencies_ms):
            return None
        runs = len(latencies_ms)
        known = [each for each in _PERCENTILES if each[0] != "p99.9" or runs >= FEWEST_FOR_P999]
        # Each percentile is a measured latency, as in the engine: no interpolation between two runs.
        found = np.percentile(latencies_ms, [share for _, share in known], method="inverted_cdf")
        low_ms, high_ms = float(latencies_ms.min()), float(latencies_ms.max())
        if high_ms < low_ms * _NARROWEST:
            middle = (low_ms * high_ms) ** 0.5
            low_ms, high_ms = middle / _NARROWEST**0.5, middle * _NARROWEST**0.5
        places = np.log(latencies_ms / low_ms) * (_BINS / np.log(high_ms / low_ms))
        counts = np.bincount(np.clip(places.astype(np.int64), 0, _BINS - 1), minlength=_BINS)
        percentiles = tuple((label, float(value)) for (label, _), value in zip(known, found, strict=True))
        cut = self._count > self.capacity and part.start == self._oldest
        since_s = float(self._times[part.start]) if cut else None
        return Distribution(runs, low_ms, high_ms, counts, percentiles, since_s)

    @property
    def _oldest(self) -> int:
        """Place of the oldest stored run."""
        return (self._count - min(self._count, self.capacity)) % self.capacity

    def _between(self, begin_s: float, end_s: float) -> slice:
        kept, first = min(self._count, self.capacity), self._oldest
        times = self._times[first : first + kept]
        begin, end = np.searchsorted(times, begin_s, "left"), np.searchsorted(times, end_s, "right")
        return slice(first + int(begin), first + int(end))
