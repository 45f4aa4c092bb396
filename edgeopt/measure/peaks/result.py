"""From the rates of many short slices to the peaks of a device."""

from collections.abc import Iterator

import numpy as np

from edgeopt.hw.device import ComputePeak, MemoryPeak, RunOverhead
from edgeopt.measure.peaks.plan import RUNTIMES
from edgeopt.measure.peaks.tasks import PRECISIONS, Dispatch, Layers, Precision, Stream, Task

Slices = dict[Task, list[tuple[float, ...]]]
_QUANTILE = 0.75


def best(slices: list[tuple[float, ...]]) -> float | None:
    """The upper quartile of the best slice, or None where nothing was measured.

    Whatever disturbs a slice makes it slower, and never faster; a single run may be a mistake of the clock.
    """
    return max((float(np.quantile(rates, _QUANTILE)) for rates in slices if rates), default=None)


def compute_peaks(slices: Slices) -> Iterator[ComputePeak]:
    found: dict[tuple[str, Precision, int], list[tuple[float, Layers]]] = {}
    for task, rates in slices.items():
        if isinstance(task, Layers) and (rate := best(rates)) is not None:
            found.setdefault((task.backend, task.precision, task.threads), []).append((rate, task))
    for _, group in sorted(found.items(), key=lambda each: (each[0][0], PRECISIONS.index(each[0][1]), each[0][2])):
        rate, task = max(group, key=lambda each: each[0])
        operators: dict[str, float] = {}
        for reached, each in group:
            operators[each.operator] = max(reached, operators.get(each.operator, 0.0))
        yield ComputePeak(RUNTIMES[task.backend], task.precision, task.threads, rate, task.title, operators)


def memory_peaks(slices: Slices) -> Iterator[MemoryPeak]:
    found: dict[tuple[str, int], dict[str, float]] = {}
    sizes: dict[tuple[str, int], int] = {}
    for task, rates in slices.items():
        if isinstance(task, Stream) and (rate := best(rates)) is not None:
            key = (task.level, task.threads)
            reached = found.setdefault(key, {})
            reached[task.action] = max(rate, reached.get(task.action, 0.0))
            sizes[key] = 2 * task.array_bytes
    for (level, threads), reached in sorted(found.items()):  # "memory" comes after "L1"
        yield MemoryPeak(level, threads, sizes[level, threads], reached.get("read"), reached.get("copy"))


def run_overheads(slices: Slices) -> Iterator[RunOverhead]:
    for task, rates in slices.items():
        if isinstance(task, Dispatch) and (rate := best(rates)) is not None:
            yield RunOverhead(RUNTIMES[task.backend], 1e6 / rate)
