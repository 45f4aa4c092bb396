"""What the user asks of a search."""

from pathlib import Path

import msgspec

from edgeopt.errors import UsageError
from edgeopt.judging.budgets import BUDGETS_DB

_LONGEST_S = 86_400.0


class Settings(msgspec.Struct, frozen=True):
    model: Path
    out: Path
    data: Path | None = None
    floor_db: float = BUDGETS_DB["transparent"]
    time_limit_s: float | None = None
    target: str | None = None
    profile: Path | None = None


def checked_limit(seconds: float | None) -> float | None:
    """The time limit as given; anything but a positive number of seconds up to a day is a UsageError."""
    if seconds is not None and not 0 < seconds <= _LONGEST_S:
        raise UsageError(f"{seconds} is no time limit.", "Give seconds, more than 0 and at most a day (86400).")
    return seconds


def time_limit_for(size_bytes: int, small_s: float = 60.0) -> float:
    """The target's own limit for small models, and a second more for each further megabyte, up to ten minutes."""
    return min(small_s + max(0.0, size_bytes / 1e6 - 10.0), max(small_s, 600.0))
