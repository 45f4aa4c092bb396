"""What was counted of one release's requests since the agent started."""

from dataclasses import dataclass


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
    success_s: float = 0.0
    """Of the successful requests: from the moment the agent had them to the answer."""
    failure_s: float = 0.0
    queue_s: float = 0.0
    """Of the time above, what was spent waiting for the worker, the pipe to it included."""
    compute_s: float = 0.0
    last_s: float = 0.0
    """When the last request was answered, in seconds since 1970."""

    def count(self, ok: bool, total_s: float, compute_s: float, rows: int, now_s: float) -> None:
        self.last_s = now_s
        if not ok:
            self.failures += 1
            self.failure_s += total_s
            return
        self.successes += 1
        self.rows += rows
        self.success_s += total_s
        self.compute_s += compute_s
        self.queue_s += max(0.0, total_s - compute_s)
