"""Runs a session over and over, as fast as it goes or at a rate, slice after slice without a gap."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from edgeopt.measure.messages import Watched


class Pace:
    """Where it stands between two slices: the next feed, and when the next run is due."""

    def __init__(self, run: Callable[[Any], object], rotation: Sequence[Any]) -> None:
        self._run = run
        self._rotation = rotation
        self._position = 0
        self._due_ns: int | None = None
        self._ended_ns: int | None = None

    def slice(self, slice_ms: float, interval_ms: float | None) -> Watched:
        """The latency of every run until the slice is over; the last run may go beyond it."""
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
        """Until the next run is due; how many were missed by then, or None where the slice ends before.

        Runs are due by the clock and not after the run before, as requests from outside are. One that comes due
        while another still runs is missed: it would only queue up behind it.
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
