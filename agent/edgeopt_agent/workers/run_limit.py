"""The time limit of a worker's run before it counts as hung, derived from the earlier runs of its release."""

import asyncio
import re
from collections.abc import Callable, Sequence
from heapq import nlargest
from math import prod

from edgeopt_agent.settings import Settings
from edgeopt_agent.workers.channel import Channel, Received
from edgeopt_agent.workers.frames import Golden, Port
from edgeopt_agent.workers.lanes import Lanes

_LOOK_S = 1.0
"""Longest interval between two looks at a run: as much of its time is not counted if the agent was suspended."""
_LATE_S = 0.5
"""Delay of a look from which the agent counts as suspended meanwhile."""


class RunLimit:
    """The limit of the oldest unanswered run.

    A run of N times the bytes of the smallest request may take N times as long; of the requests in the channels
    it is not known which the worker runs together.
    """

    def __init__(self, settings: Settings, lanes: Lanes) -> None:
        self._settings = settings
        self._lanes = lanes
        self.golden: Golden | None = None
        """The last answer to the golden inputs, which says what a run takes before there were others."""
        self.smallest_bytes = 1

    def of_request(self) -> float:
        return self.seconds(self._settings.hang_timeout_s)

    def of_golden(self) -> float:
        return self.seconds(self._settings.hang_timeout_s, self.golden.samples if self.golden is not None else 1)

    def seconds(self, min_s: float, samples: int = 1) -> float:
        settings = self._settings
        if self.golden is None:
            return settings.request_timeout_s
        runs = self._lanes.run_s
        p99_s = max([self.golden.latency_ms / 1e3, *nlargest(len(runs) // 100 + 1, runs)[-1:]])
        size = max(samples, self._lanes.unanswered_bytes / self.smallest_bytes)
        return min(settings.request_timeout_s, max(min_s, settings.hang_latency_factor * p99_s * size))


def smallest_bytes(inputs: Sequence[Port]) -> int:
    """Returns the least bytes of a request's inputs: each open dimension is taken as 1."""
    return sum(map(_min_bytes, inputs)) or 1


def _min_bytes(port: Port) -> int:
    """Returns the least bytes of an input: each open dimension is taken as 1."""
    bits = int(re.sub(r"\D", "", port.dtype) or 8)
    return prod(size for size in port.shape if isinstance(size, int)) * bits // 8


class Alarm:
    """A time limit that begins when the worker can begin: what stands before it in the queue is not its fault.

    Time in which the agent itself did not run, such as that of a suspended machine, does not count.
    """

    def __init__(
        self,
        channel: Channel,
        future: asyncio.Future[Received],
        pause_s: float,
        limit_s: Callable[[], float],
        over: Callable[[float], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._channel = channel
        self._future = future
        self._limit_s = limit_s
        self._over = over
        self._pause_s = pause_s
        """The least that the limit can be: it is not computed for each request."""
        self._wait(pause_s)

    def cancel(self) -> None:
        self._timer.cancel()

    def _wait(self, left_s: float) -> None:
        self._since_s = self._loop.time()
        self._timer = self._loop.call_later(min(left_s, _LOOK_S), self._look)

    def _look(self) -> None:
        # What it waits behind has a limit of its own, and can be longer.
        if not self._channel.is_oldest(self._future):
            self._wait(self._pause_s)
            return
        now_s, channel = self._loop.time(), self._channel
        if now_s - self._timer.when() > _LATE_S:
            # The agent did not run, nor did the worker if the whole machine was suspended.
            channel.busy_since_s = min(now_s, channel.busy_since_s + now_s - self._since_s)
        limit_s = self._limit_s()
        left_s = channel.busy_since_s + limit_s - now_s
        if left_s > 0:
            self._wait(left_s)
        else:
            self._over(limit_s)
