"""What was counted of one release's requests since the agent started."""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Literal

Reason = Literal["REJECTED", "BACKEND", "OTHER"]
REASONS: tuple[Reason, ...] = ("REJECTED", "BACKEND", "OTHER")
"""Why a request failed, in Triton's words: not let in, by the model or its worker, by the request itself."""

BUCKETS_MS = (
    0.5,
    1.0,
    2.0,
    5.0,
    10.0,
    20.0,
    50.0,
    100.0,
    200.0,
    500.0,
    1000.0,
    2000.0,
    5000.0,
    10_000.0,
    30_000.0,
)


@dataclass(slots=True)
class Totals:
    name: str
    release_id: str
    successes: int = 0
    failures: int = 0
    answers: int = 0
    """What the model answered, whether or not it could be sent: JSON has no NaN."""
    nan: int = 0
    """Of these, those with NaN although all inputs were finite."""
    infinite: int = 0
    """The same with infinity and without NaN."""
    rows: int = 0
    """Requests, each times the batch that it held."""
    executions: int = 0
    """Runs of the model: fewer than requests where some were run together."""
    success_s: float = 0.0
    """Of the successful requests: from the moment the agent had them to the answer."""
    failure_s: float = 0.0
    queue_s: float = 0.0
    """Of the time above, what was spent waiting for the worker, the pipe to it included."""
    compute_s: float = 0.0
    processing_s: float = 0.0
    last_s: float = 0.0
    """When the last request was answered, in seconds since 1970."""
    hangs: int = 0
    """How often its worker was killed because it did not answer, ..."""
    crashes: int = 0
    """... and how often it ended by itself, ..."""
    memory_restarts: int = 0
    """... apart from ends because clients' requests made it take too much memory."""
    largest_bytes: int = 0
    """The largest request that was answered."""
    failed: dict[Reason, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    latencies: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_MS) + 1))
    """The successful requests by the first bucket that holds their latency; the last is for those above all."""

    def fail(self, reason: Reason, total_s: float, now_s: float) -> None:
        self.last_s = now_s
        self.failures += 1
        self.failed[reason] += 1
        self.failure_s += total_s

    def succeed(
        self, total_s: float, compute_s: float, rows: int, executions: int, now_s: float, processing_s: float = 0.0
    ) -> None:
        self.last_s = now_s
        self.latencies[bisect_left(BUCKETS_MS, total_s * 1e3)] += 1
        self.successes += 1
        self.rows += rows
        self.executions += executions
        self.success_s += total_s
        self.compute_s += compute_s
        self.processing_s += processing_s
        self.queue_s += max(0.0, total_s - compute_s - processing_s)
