"""The request counters of one release since the agent started."""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Literal

Reason = Literal["REJECTED", "BACKEND", "OTHER"]
REASONS: tuple[Reason, ...] = ("REJECTED", "BACKEND", "OTHER")
"""Reasons of failed requests in Triton's words: not admitted, the model or its worker, the request itself."""

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
    """Answers of the model, including those that could not be sent: JSON has no NaN."""
    nan: int = 0
    """Answers with NaN although all inputs were finite."""
    infinite: int = 0
    """Answers with infinity and without NaN although all inputs were finite."""
    rows: int = 0
    """Batch items of all requests."""
    executions: int = 0
    """Runs of the model: fewer than requests where some were run together."""
    success_s: float = 0.0
    """Seconds from the arrival of each successful request at the agent to its answer, added up."""
    failure_s: float = 0.0
    queue_s: float = 0.0
    """Part of `success_s` that was spent waiting for the worker, including the pipe to it."""
    compute_s: float = 0.0
    processing_s: float = 0.0
    last_s: float = 0.0
    """Time of the last answer, in seconds since 1970."""
    hangs: int = 0
    """Number of times that the worker was killed because it did not answer."""
    crashes: int = 0
    """Number of times that the worker ended by itself, except for ends counted in `memory_restarts`."""
    memory_restarts: int = 0
    """Number of times that the worker ended because clients' requests made it take too much memory."""
    prompt_tokens: int = 0
    """Tokens of the prompts whose text was generated."""
    generated_tokens: int = 0
    decode_s: float = 0.0
    """Seconds that generated tokens took, without the first one of each text."""
    tokens_per_s: float | None = None
    """Speed of the last text after its first token; None before there was one."""
    first_token_s: float = 0.0
    """Seconds from the arrival of each request for text to its first token, added up."""
    largest_bytes: int = 0
    """The largest request that was answered."""
    failed: dict[Reason, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))
    latencies: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_MS) + 1))
    """The successful requests by the first bucket that holds their latency; the last is for those above all."""
    first_tokens: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_MS) + 1))
    """The requests for text by the bucket of the time to their first token."""

    def add_text(self, tokens: int, first_token_s: float, decode_s: float) -> None:
        """Counts a text of at least one token, whether or not it came to its end."""
        self.generated_tokens += tokens
        self.first_tokens[bisect_left(BUCKETS_MS, first_token_s * 1e3)] += 1
        self.first_token_s += first_token_s
        self.decode_s += decode_s
        if decode_s > 0:
            self.tokens_per_s = (tokens - 1) / decode_s

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
