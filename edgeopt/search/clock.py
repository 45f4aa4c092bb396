"""The time that a search has."""

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    begin_s: float
    """On the monotonic clock."""
    limit_s: float

    @property
    def spent_s(self) -> float:
        return time.monotonic() - self.begin_s

    def until(self, share: float) -> float:
        """The moment at which a share of the time limit is used up."""
        return self.begin_s + share * self.limit_s
