"""The figures of one side, from all latencies of its slices."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgeopt.measure.report import Figures

# Slices in a window: half a second and more, with several turns of the other sides in between.
WINDOW_SLICES = 10
RUNS_FOR_P99 = 100
"""The 99th percentile of fewer is hardly more than the slowest of them, and is not shown."""
_WINDOWS = 3
_WITHIN = 1.1


def figures(latencies_ms: Sequence[NDArray[np.float64]], seconds: Sequence[float]) -> Figures | None:
    """Of slices of latencies, and how long each slice took; None where nothing ran."""
    if not latencies_ms:
        return None
    runs = np.concatenate(latencies_ms)
    p50, p90, p95, p99 = (float(value) for value in np.percentile(runs, [50, 90, 95, 99]))
    return Figures(
        runs=len(runs),
        p50_ms=p50,
        p90_ms=p90,
        p95_ms=p95,
        p99_ms=p99,
        mean_ms=float(runs.mean()),
        deviation_ms=float(runs.std(ddof=1)) if len(runs) > 1 else 0.0,
        lowest_ms=float(runs.min()),
        highest_ms=float(runs.max()),
        throughput_per_s=len(runs) / max(sum(seconds), 1e-9),
        stable=stable(latencies_ms, seconds),
    )


def stable(latencies_ms: Sequence[NDArray[np.float64]], seconds: Sequence[float]) -> bool | None:
    """Whether the last three windows agree; None where there are fewer.

    As in Triton's perf_analyzer, the largest of the three is at most 10 % above the smallest, in mean latency
    and in throughput.
    """
    if len(latencies_ms) < _WINDOWS * WINDOW_SLICES:
        return None
    latency, throughput = [], []
    for k in range(len(latencies_ms) - _WINDOWS * WINDOW_SLICES, len(latencies_ms), WINDOW_SLICES):
        runs = np.concatenate(latencies_ms[k : k + WINDOW_SLICES])
        latency.append(float(runs.mean()))
        throughput.append(len(runs) / max(sum(seconds[k : k + WINDOW_SLICES]), 1e-9))
    return all(max(values) <= _WITHIN * min(values) for values in (latency, throughput))
