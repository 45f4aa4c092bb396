"""Percentiles of the last seconds, in bounded memory however many requests there are."""

import math
from collections import Counter, deque
from collections.abc import Iterable

# One step of the scale is half a percent.
_STEPS = 1.0 / math.log(1.005)
_MIN_MS = 1e-6


class LatencyWindow:
    """Latencies in ticks; each tick is a histogram over a logarithmic scale."""

    def __init__(self, ticks: int) -> None:
        self._now: Counter[int] = Counter()
        self._past: deque[Counter[int]] = deque()
        self._sum: Counter[int] = Counter()
        self._ticks = ticks

    def add(self, latency_ms: float) -> None:
        self._now[round(math.log(max(latency_ms, _MIN_MS)) * _STEPS)] += 1

    def tick(self) -> None:
        """Ends a tick; the oldest one falls out of the window."""
        self._past.append(self._now)
        self._sum.update(self._now)
        self._now = Counter()
        if len(self._past) > self._ticks:
            self._sum.subtract(self._past.popleft())
            self._sum = +self._sum

    def last(self) -> float | None:
        """Returns the median of the last tick; None if nothing happened in it."""
        return next(iter(_quantiles(self._past[-1], (0.5,))), None) if self._past else None

    def last_values(self) -> tuple[float, ...]:
        """Returns the latencies of the last tick, each within half a percent."""
        if not self._past:
            return ()
        return tuple(round(math.exp(step / _STEPS), 6) for step in self._past[-1].elements())

    def quantiles(self, shares: Iterable[float]) -> list[float]:
        """Returns the quantiles of the whole window at ascending shares; empty if nothing happened in it."""
        return _quantiles(self._sum, shares)

    def count(self, ticks: int) -> int:
        """Returns the number of values in the last ticks."""
        return sum(self._past[-k].total() for k in range(1, min(ticks, len(self._past)) + 1))


def _quantiles(histogram: Counter[int], shares: Iterable[float]) -> list[float]:
    total = histogram.total()
    if not total:
        return []
    found = []
    steps = iter(sorted(histogram.items()))
    step, seen = next(steps)
    for share in shares:
        while seen < share * total:
            step, count = next(steps)
            seen += count
        found.append(math.exp(step / _STEPS))
    return found
