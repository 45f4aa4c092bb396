"""The members of a pool: each has a session, a queue by priority, and an estimate of what a request takes."""

import heapq
import statistics
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Literal

from edgeopt.backends.base import Array, Feeds
from edgeopt.bundle.runtime.session import Session

Strategy = Literal["round-robin", "least-loaded", "memory", "cost"]

_ESTIMATED_RUNS = 9
"""An odd few: one slow run changes nothing, and a device that became slower is noticed soon."""
_MEASURED_RUNS = 5
_MEASURE_LIMIT_S = 0.5
_FORGOTTEN_S = 10.0
"""An idle member is tried again after this time, whatever its last runs took: a hot device may have cooled."""


@dataclass(frozen=True, slots=True)
class MemberStatistics:
    healthy: bool
    waiting: int
    running: bool
    requests: int
    """Number of answered requests."""
    failures: int
    """Requests that ended with an error, and workers that ended."""
    mean_queue_ms: float
    mean_compute_ms: float
    latency_ms: float
    """Latency that the strategy `cost` expects of the next request: the median of the last runs."""
    memory_bytes: int | None
    """Memory of the member's worker; None for a session in this process."""


@dataclass(slots=True, eq=False)
class PoolRequest:
    feeds: Feeds | Array
    priority: int
    number: int
    deadline: float | None
    """Deadline by the monotonic clock; None: no limit."""
    queued: float
    future: "Future[dict[str, Array]]" = field(default_factory=Future)
    started: bool = False
    size_bytes: int = 0
    """Size of the feeds."""
    tried: set[str] = field(default_factory=set)
    """Members whose worker ended with it."""

    def __lt__(self, other: "PoolRequest") -> bool:
        return (-self.priority, self.number) < (-other.priority, other.number)

    def is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline


class Member:
    """Use its fields only while holding the pool's lock."""

    def __init__(self, name: str, session: Session, sample: Feeds) -> None:
        self.name = name
        self.session = session
        self.healthy = True
        self.running: PoolRequest | None = None
        self.waiting: list[PoolRequest] = []
        self._sample = sample
        self._runs_s: deque[float] = deque(maxlen=_ESTIMATED_RUNS)
        self._last_run = 0.0
        self._requests = self._failures = 0
        self._queue_s = self._compute_s = 0.0

    def measure(self) -> None:
        """Measures how long a request takes, before the first one comes."""
        self.check()
        begin = time.perf_counter()
        while len(self._runs_s) < _MEASURED_RUNS and time.perf_counter() - begin < _MEASURE_LIMIT_S:
            start = time.perf_counter()
            self.check()
            self._add_run(time.perf_counter() - start)

    def check(self) -> None:
        """Runs the sample: raises a WorkerError where the worker does not come back."""
        self.session.run(self._sample)

    def restart(self) -> list[PoolRequest]:
        """Resets the member to its state before the first request; returns the unanswered requests."""
        left = [*self.drop_all(), *([self.running] if self.running is not None else [])]
        self.healthy, self.running = True, None
        return left

    def add(self, request: PoolRequest) -> None:
        heapq.heappush(self.waiting, request)

    def take(self) -> PoolRequest:
        return heapq.heappop(self.waiting)

    def drop(self, request: PoolRequest) -> bool:
        """Whether it waited here."""
        if request not in self.waiting:
            return False
        self.waiting.remove(request)
        heapq.heapify(self.waiting)
        return True

    def drop_all(self) -> list[PoolRequest]:
        dropped, self.waiting = sorted(self.waiting), []
        return dropped

    def answered(self, request: PoolRequest, start: float, end: float) -> None:
        self._requests += 1
        self._queue_s += max(start - request.queued, 0.0)
        self._compute_s += end - start
        self._add_run(end - start)

    def failed(self) -> None:
        self._failures += 1

    @property
    def load(self) -> int:
        """Requests that it has not answered yet."""
        return len(self.waiting) + (self.running is not None)

    @property
    def load_bytes(self) -> int:
        """Returns the size of the feeds of the unanswered requests."""
        return sum(request.size_bytes for request in (*self.waiting, *filter(None, (self.running,))))

    @property
    def latency_s(self) -> float:
        return statistics.median(self._runs_s)

    @property
    def cost_s(self) -> float:
        """Returns the time until one more request would be answered; 0 for a member that was idle for long."""
        if not self.load and time.perf_counter() - self._last_run > _FORGOTTEN_S:
            return 0.0
        return (self.load + 1) * self.latency_s

    def statistics(self) -> MemberStatistics:
        count = max(self._requests, 1)
        return MemberStatistics(
            healthy=self.healthy,
            waiting=len(self.waiting),
            running=self.running is not None,
            requests=self._requests,
            failures=self._failures,
            mean_queue_ms=self._queue_s / count * 1e3,
            mean_compute_ms=self._compute_s / count * 1e3,
            latency_ms=self.latency_s * 1e3,
            memory_bytes=self.session.memory_bytes,
        )

    def _add_run(self, taken_s: float) -> None:
        self._runs_s.append(taken_s)
        self._last_run = time.perf_counter()


def choose(members: Sequence[Member], strategy: Strategy, turn: int) -> Member:
    """The member for the next request; `turn` counts requests."""
    # Where no worker is there, requests wait for one that comes back.
    usable = [member for member in members if member.healthy] or list(members)
    if strategy == "round-robin":
        return usable[turn % len(usable)]
    if strategy == "least-loaded":
        return min(usable, key=lambda member: member.load)
    if strategy == "memory":
        return min(usable, key=lambda member: (member.load_bytes, member.load))
    return min(usable, key=lambda member: member.cost_s)
