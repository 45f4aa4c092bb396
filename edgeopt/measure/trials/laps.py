"""Runs something over and over for a time slice, in one thread or in several at once."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgeopt.measure.messages import Watched

Run = Callable[[Any], object]
Count = Callable[[], dict[str, int]]
_Laps = tuple[list[int], list[int]]

_WARM_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Counted:
    """The runs of a slice that count, without those that warmed up."""

    begin_s: float
    """Start of the first counted run, on the machine's monotonic clock."""
    seconds: float
    """Duration of the counted runs; their number divided by it is the throughput."""
    latencies_ms: tuple[float, ...]
    starts_ms: tuple[float, ...]
    """Start of each run, since the first one; sorted, also for several threads."""
    events: tuple[dict[str, int], dict[str, int]]
    """Event counts before and after."""
    first: int = 0
    """Index in the rotation of the first counted run, with one thread."""
    following: int = 0
    """Index in the rotation of the next run, with one thread."""


def time_slice(
    run: Run,
    turns: Sequence[Any],
    slice_ms: float,
    concurrency: int = 1,
    count: Count | None = None,
    place: int = 0,
) -> Counted:
    """Calls `run` with each of `turns` in rotation for the length of a slice; each thread starts at another one.

    A single thread begins at `place`. Raises the errors of `run`.
    """
    if concurrency == 1:
        return _one_thread(run, turns, slice_ms, count, place)
    return _threads(run, turns, slice_ms, concurrency, count)


def _one_thread(run: Run, turns: Sequence[Any], slice_ms: float, count: Count | None, place: int) -> Counted:
    begin = time.perf_counter_ns()
    warm_until, end = _limits(begin, slice_ms)
    before = count() if count else {}
    warm = _laps(run, turns, place, warm_until)
    first = place + len(warm[0])
    if warm[1][-1] >= end:  # a run longer than the slice
        laps, first = (warm[0][-1:], warm[1][-1:]), first - 1
    else:
        before = count() if count else {}
        laps = _laps(run, turns, first, end)
    made = _slice([laps], (before, count() if count else {}))
    return replace(made, first=first % len(turns), following=(first + len(laps[0])) % len(turns))


def _threads(run: Run, turns: Sequence[Any], slice_ms: float, concurrency: int, count: Count | None) -> Counted:
    kept: list[_Laps] = []
    errors: list[BaseException] = []
    gate = threading.Barrier(concurrency + 1)
    limits = [0, 0]

    def work(place: int) -> None:
        gate.wait()
        warm_until, end = limits
        try:
            warm = _laps(run, turns, place, warm_until)
            one_long = warm[1][-1] >= end
            laps = _laps(run, turns, place + len(warm[0]), end) if not one_long else (warm[0][-1:], warm[1][-1:])
            kept.append(laps)
        except BaseException as error:  # noqa: BLE001 - raised again by the calling thread
            errors.append(error)

    places = [k * len(turns) // concurrency for k in range(concurrency)]
    threads = [threading.Thread(target=work, args=(place,), daemon=True) for place in places]
    for thread in threads:
        thread.start()
    limits[:] = _limits(time.perf_counter_ns(), slice_ms)
    gate.wait()
    time.sleep(max(0.0, (limits[0] - time.perf_counter_ns()) / 1e9))
    before = count() if count else {}
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return _slice(kept, (before, count() if count else {}))


def _laps(run: Run, turns: Sequence[Any], place: int, end: int) -> _Laps:
    """Returns the start and the end of each run: at least one, and none that begins after `end`."""
    clock = time.perf_counter_ns
    starts: list[int] = []
    stops: list[int] = []
    length = len(turns)
    while True:
        turn = turns[place % length]
        start = clock()
        if start >= end and stops:
            return starts, stops
        run(turn)
        stops.append(clock())
        starts.append(start)
        place += 1


def _limits(begin: int, slice_ms: float) -> tuple[int, int]:
    return begin + int(slice_ms * 1e6 * _WARM_SHARE), begin + int(slice_ms * 1e6)


def _slice(threads: list[_Laps], events: tuple[dict[str, int], dict[str, int]]) -> Counted:
    starts = np.concatenate([np.array(laps[0]) for laps in threads])
    stops = np.concatenate([np.array(laps[1]) for laps in threads])
    order = np.argsort(starts, kind="stable")
    starts, stops = starts[order], stops[order]
    # Threads end at different moments, so the throughput of each is computed from its own time.
    per_ns = sum(len(laps[0]) / max(laps[1][-1] - laps[0][0], 1) for laps in threads)
    return Counted(
        begin_s=float(starts[0]) / 1e9,
        seconds=len(starts) / per_ns / 1e9,
        latencies_ms=tuple(((stops - starts) / 1e6).tolist()),
        starts_ms=tuple(np.round((starts - starts[0]) / 1e6, 3).tolist()),
        events=events,
    )


class Pace:
    """The state between two slices: the next feed, and the time when the next run is due."""

    def __init__(self, run: Callable[[Any], object], rotation: Sequence[Any]) -> None:
        self._run = run
        self._rotation = rotation
        self._position = 0
        self._due_ns: int | None = None
        self._ended_ns: int | None = None

    def slice(self, slice_ms: float, interval_ms: float | None) -> Watched:
        """Runs until the slice is over, and returns the latency of every run; the last run may end later."""
        clock = time.perf_counter_ns
        begin = clock() if self._ended_ns is None else self._ended_ns
        end = clock() + int(slice_ms * 1e6)
        taken: list[int] = []
        missed = 0
        while (now := clock()) < end:
            if interval_ms is not None:
                late = self._wait(now, end, int(interval_ms * 1e6))
                if late is None:
                    continue
                missed += late
            feeds = self._rotation[self._position % len(self._rotation)]
            self._position += 1
            start = clock()
            self._run(feeds)
            taken.append(clock() - start)
        self._ended_ns = clock()
        packed = (np.array(taken, np.float64) / 1e6).astype("<f4").tobytes()
        return Watched(packed, (self._ended_ns - begin) / 1e9, missed)

    def _wait(self, now: int, end: int, interval: int) -> int | None:
        """Waits for the next due run; returns the number of missed runs, or None if the slice ends before.

        Runs are due by the clock and not after the run before, like requests from outside. A run that is due
        while another still runs is missed, because it would only queue up behind it.
        """
        due = now if self._due_ns is None else self._due_ns
        if due > now:
            time.sleep((min(due, end) - now) / 1e9)
            if due >= end:
                self._due_ns = due
                return None
        missed = max(0, (now - due) // interval)
        self._due_ns = due + (missed + 1) * interval
        return missed
