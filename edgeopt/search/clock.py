"""The time that a search has."""

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    begin_s: float
    """On the monotonic clock."""
    limit_s: float
    proof_s: float = 0.0
    """Reserved for the proof, at the end."""

    @property
    def spent_s(self) -> float:
        return time.monotonic() - self.begin_s

    @property
    def ends_s(self) -> float:
        """When the time limit is used up."""
        return self.begin_s + self.limit_s

    def until(self, share: float) -> float:
        """The moment at which a share of the time before the proof is used up."""
        return self.begin_s + share * (self.limit_s - self.proof_s)
