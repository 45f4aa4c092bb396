"""Outcomes and latencies of the requests to each release, seen from outside."""

import asyncio
from collections import deque
from heapq import nlargest

KEPT_LATENCIES = 1000
KEPT_ERRORS = 100
ENOUGH_LATENCIES = 50
NOISE_LATENCIES = 2
"""This number of slow requests says nothing about a release."""


class ReleaseTraffic:
    """The requests to one release."""

    __slots__ = ("distinct_errors", "errors", "failed", "last_error", "latencies_ms", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.errors = 0
        self.distinct_errors: set[int] = set()
        """The first failed requests that differ from each other."""
        self.last_error = ""
        self.latencies_ms: deque[float] = deque(maxlen=KEPT_LATENCIES)
        self.failed = asyncio.Event()

    def p99_ms(self) -> float | None:
        """Returns the 99th percentile of the latencies; None while there are too few requests."""
        if len(self.latencies_ms) < ENOUGH_LATENCIES:
            return None
        beyond = max(len(self.latencies_ms) // 100, NOISE_LATENCIES)
        return nlargest(beyond + 1, self.latencies_ms)[-1]


class Observed:
    """Listens to the router; `watch` is called once a request."""

    def __init__(self) -> None:
        self._seen: dict[str, ReleaseTraffic] = {}

    def watch(self, release_id: str, ok: bool, latency_ms: float, reason: str, request: int = 0) -> None:
        seen = self.of(release_id)
        seen.requests += 1
        if ok:
            seen.latencies_ms.append(latency_ms)
        else:
            seen.errors += 1
            if len(seen.distinct_errors) < KEPT_ERRORS:
                seen.distinct_errors.add(request)
            seen.last_error = reason
            seen.failed.set()

    def of(self, release_id: str) -> ReleaseTraffic:
        return self._seen.setdefault(release_id, ReleaseTraffic())

    def begin(self, release_id: str) -> ReleaseTraffic:
        """Forgets what was seen of a release before."""
        self._seen.pop(release_id, None)
        return self.of(release_id)

    def keep(self, release_ids: set[str]) -> None:
        """Forgets every other release."""
        self._seen = {name: seen for name, seen in self._seen.items() if name in release_ids}
