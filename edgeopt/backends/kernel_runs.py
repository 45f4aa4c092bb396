"""The time of a kernel in one run, from several runs, robust against a single slow run."""

import statistics
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise

FEWEST_RUNS = 5
"""Fewest runs after the first one, which prepares; the median of fewer follows a single slow run."""
_BLOCKS = 5
_STEP_MS = 1e-3
"""The resolution of the counters: one microsecond."""

RunTime = tuple[float, float, float]
"""The time of one run and the range of the middle half of the runs, in milliseconds."""


def turns(runs: int, limit_s: float) -> Iterator[int]:
    """Yields the number of the first run and of those that count: all of them, or as many as the time allows."""
    end = time.monotonic() + limit_s
    for turn in range(runs + 1):
        if turn > FEWEST_RUNS and time.monotonic() > end:
            return
        yield turn


def of_runs(times_ms: Sequence[float]) -> RunTime:
    """Returns the median and the middle half of these runs."""
    if len(times_ms) < 2:
        return (times_ms[0], times_ms[0], times_ms[0])
    low, middle, high = statistics.quantiles(times_ms, n=4, method="inclusive")
    return (max(0.0, middle), max(0.0, low), max(0.0, high))


def of_means(means_ms: Sequence[float]) -> RunTime:
    """Returns the time of one run from means of all runs so far, without the first run, which prepares.

    The mean of the other runs is exact to a step of the counter, unlike single runs: their times only show which
    run was slow, and the range is that of blocks of runs.
    """
    count = len(means_ms) - 1
    if not count:
        return of_runs(means_ms)
    sums = [(place + 1) * mean for place, mean in enumerate(means_ms)]
    runs = [after - before for before, after in pairwise(sums)]
    maximum = 2 * statistics.median(runs) + 2 * len(sums) * _STEP_MS
    time_ms = max(0.0, sum(min(each, maximum) for each in runs) / count)
    borders = sorted({round(count * block / _BLOCKS) for block in range(_BLOCKS + 1)})
    blocks = [(sums[b] - sums[a]) / (b - a) for a, b in pairwise(borders)]
    _, low, high = of_runs(blocks)
    return (time_ms, min(low, time_ms), max(high, time_ms))
