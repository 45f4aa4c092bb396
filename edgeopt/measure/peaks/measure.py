"""The measured peaks of this device: the highest rates of its runtimes and its memory (`edgeopt probe --deep`).

Each runtime, and memory, has a process of its own. All tasks take turns in short slices until the time is up, so
that a disturbance affects all of them and none for long; the best slice of each task counts.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime

import numpy as np

from edgeopt.backends import backend_named
from edgeopt.events import Emit, Progress
from edgeopt.hw.device import ComputePeak, Device, MemoryPeak, Peaks, RunOverhead, Unavailable
from edgeopt.hw.probe_cache import CachedFacts
from edgeopt.measure.peaks.tasks import (
    PRECISIONS,
    RUNTIMES,
    Dispatch,
    Layers,
    Precision,
    Ran,
    Repeat,
    Stream,
    Task,
    alone,
    plan,
)
from edgeopt.workers.client import WorkerClient
from edgeopt.workers.host import LocalHost, TrialHost
from edgeopt.workers.protocol import Failed, raise_machine_failure
from edgeopt.workspace import PEAKS, workspace

_MAX_STARTS = 3
_QUANTILE = 0.75
LIMIT_S = 8.5
_OPENING_SHARE = 0.45
_SLICE_MS = 10.0
_ROUNDS_FOR_ALL = 5
_SCALES = 0.95
_SLOWEST_SLICE_S = 2.0
_LOOK_S = 0.005
_MEMORY = "memory"


class RuntimeTasks:
    """The tasks of one runtime, or of memory, and the rates of each slice of each task."""

    def __init__(self, name: str, host: TrialHost, tasks: list[Task]) -> None:
        self.name = name
        self.slices: dict[Task, list[tuple[float, ...]]] = {task: [] for task in tasks}
        self.failures: dict[Task, str] = {}
        self._worker = WorkerClient(host, _MAX_STARTS)
        self._pending: Task | None = None

    @property
    def tasks(self) -> list[Task]:
        return [task for task in self.slices if task not in self.failures]

    @property
    def is_busy(self) -> bool:
        return self._pending is not None

    def is_ready(self, timeout_s: float) -> bool:
        """Whether the slice that was begun has ended."""
        return self._worker.ready(timeout_s)

    def ask(self, task: Task, slice_ms: float) -> None:
        """Begins a slice; `answer` waits for its end."""
        if task in self.failures:
            return
        self._pending = task
        self._worker.send(Repeat(task, slice_ms))

    def answer(self, deadline: float, keep: bool = True) -> None:
        """Waits for the slice that was begun; a task that fails is not run again."""
        task, self._pending = self._pending, None
        if task is None:
            return
        answer = self._worker.answer(Ran, max(0.1, deadline - time.monotonic()))
        raise_machine_failure(answer)
        if isinstance(answer, Failed):
            self.failures[task] = answer.message
        elif keep:
            self.slices[task].append(answer.rates)

    def close(self) -> None:
        self._worker.close()


Slices = dict[Task, list[tuple[float, ...]]]


def best(slices: list[tuple[float, ...]]) -> float | None:
    """Returns the upper quartile of the best slice, or None without a slice.

    A disturbance only makes a slice slower; a single run may be a mistake of the clock.
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


def measure(device: Device, emit: Emit, limit_s: float = LIMIT_S) -> CachedFacts:
    """Measures for about `limit_s` seconds; missing results have a reason."""
    begin = time.monotonic()
    unavailable = {
        f"peaks.{runtime}": found.reason
        for backend, runtime in RUNTIMES.items()
        if isinstance(found := backend_named(backend).available(), Unavailable)
    }
    backends = tuple(backend for backend, runtime in RUNTIMES.items() if f"peaks.{runtime}" not in unavailable)
    tasks, absent = plan(device, backends)
    with workspace(PEAKS) as folder, ExitStack() as stack:
        host = LocalHost(folder)
        runtimes = [
            RuntimeTasks(name, host, own)
            for name in (*backends, _MEMORY)
            if (own := [task for task in tasks if _runtime_of(task) == name])
        ]
        for runtime in runtimes:
            stack.callback(runtime.close)
        emit(Progress("loading", f"{len(tasks)} small models and pieces of memory", time_left_s=limit_s))
        _open(runtimes, begin + _OPENING_SHARE * limit_s)
        _take_turns(runtimes, begin + limit_s, emit)
    slices: Slices = {task: rates for runtime in runtimes for task, rates in runtime.slices.items()}
    for runtime in runtimes:
        unavailable |= _missing(runtime)
    state = device.state
    peaks = Peaks(
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        took_s=round(time.monotonic() - begin, 2),
        compute=tuple(compute_peaks(slices)),
        memory=tuple(memory_peaks(slices)),
        overheads=tuple(run_overheads(slices)),
        disturbed_by=() if state is None or state.worth_measuring else state.reasons,
    )
    return CachedFacts(peaks, absent | unavailable)


def _runtime_of(task: Task) -> str:
    return _MEMORY if isinstance(task, Stream) else task.backend


def _open(runtimes: list[RuntimeTasks], deadline: float) -> None:
    """Loads all tasks, with the processes side by side; tasks that are not ready by the deadline fail."""
    waiting = {runtime.name: list(runtime.tasks) for runtime in runtimes}
    while (now := time.monotonic()) < deadline and any(
        runtime.is_busy or waiting[runtime.name] for runtime in runtimes
    ):
        for runtime in runtimes:
            if runtime.is_busy and runtime.is_ready(min(_LOOK_S, deadline - now)):
                runtime.answer(deadline, keep=False)
            if not runtime.is_busy and waiting[runtime.name]:
                runtime.ask(waiting[runtime.name].pop(0), 0.0)
    for runtime in runtimes:
        runtime.answer(deadline, keep=False)
        for task in waiting[runtime.name]:
            runtime.failures[task] = "the device was too slow to load it in time"


def _take_turns(runtimes: list[RuntimeTasks], deadline: float, emit: Emit) -> None:
    number = 0
    while time.monotonic() < deadline:
        emit(Progress("measuring", "all, interleaved", time_left_s=max(0.0, deadline - time.monotonic())))
        turns = [
            (runtime, task) for runtime in runtimes for task in runtime.tasks if _is_wanted(task, runtime, number)
        ]
        if not turns:
            return
        # Each round begins with another task, so that no task always follows the same one or is always cut off.
        shift = number * 7 % len(turns)
        for runtime, task in turns[shift:] + turns[:shift]:
            if time.monotonic() >= deadline:
                return
            runtime.ask(task, _SLICE_MS)
            runtime.answer(min(time.monotonic() + _SLOWEST_SLICE_S, deadline + 0.5))
        number += 1


def _is_wanted(task: Task, runtime: RuntimeTasks, number: int) -> bool:
    """Whether another slice may add information.

    The rates of one core hardly differ from slice to slice. All cores together are rarely undisturbed: they are
    measured until the time is up, unless they reach the sum of the single cores.
    """
    if number < _ROUNDS_FOR_ALL:
        return True
    threads = getattr(task, "threads", 1)
    one = alone(task, runtime.slices)
    if threads == 1 or one is None:
        return threads > 1
    rate, reached = best(runtime.slices[one]), best(runtime.slices[task])
    return rate is None or reached is None or reached < _SCALES * threads * rate


def _missing(runtime: RuntimeTasks) -> dict[str, str]:
    """Returns the reason for each group of tasks without any result."""
    found: dict[str, str] = {}
    measured = {_title(task) for task, slices in runtime.slices.items() if slices}
    for task, failure in runtime.failures.items():
        if _title(task) not in measured:
            found.setdefault(_title(task), failure)
    return found


def _title(task: Task) -> str:
    """Returns the key of the task in `Device.unavailable`, such as `peaks.openvino.bf16`."""
    if isinstance(task, Stream):
        return f"peaks.{_MEMORY}.{task.level}"
    runtime = RUNTIMES[task.backend]
    return f"peaks.{runtime}.{getattr(task, 'precision', 'overhead')}"
