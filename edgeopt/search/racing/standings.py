"""Standings of the candidates as events: when one enters, while it races, and when it is out.

The last event of a candidate is its outcome. A candidate that is out may be called back to
prove itself: then it races again in the events, and its proof follows.
"""

import time
from collections.abc import Iterable

import numpy as np

from edgeopt.events import Emit, Standing
from edgeopt.measure.contender import Contender
from edgeopt.measure.rounds import speedup
from edgeopt.search.outcome import CandidateReport
from edgeopt.search.racing.screen import Entry

# Each interval takes a millisecond: often enough to watch, seldom enough not to lengthen the race.
_EVERY_S = 0.3
# An interval of fewer rounds would look surer than it is.
_FEWEST_ROUNDS = 3


class Ticker:
    """Tells how those in the race stand, not more often than every 0.3 s."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._told_s = time.monotonic()

    def tell(self, baseline: Contender, alive: Iterable[Entry]) -> None:
        if time.monotonic() - self._told_s < _EVERY_S:
            return
        for entry in alive:
            self._emit(racing(entry, baseline))
        self._told_s = time.monotonic()


def racing(entry: Entry, baseline: Contender | None = None) -> Standing:
    """A candidate that is in the race; with the baseline, what the rounds so far say of its speed."""
    ratio, latency_ms = entry.speedup, entry.latency_ms
    contender = entry.contender
    if baseline is not None and contender is not None and contender.slices_ms and baseline.slices_ms:
        ratio, latency_ms = speedup(baseline, contender), float(np.median(contender.slices_ms))
    sure = ratio is not None and ratio.rounds >= _FEWEST_ROUNDS
    return Standing(
        entry.candidate.name,
        "racing",
        latency_ms=latency_ms,
        speedup=ratio.median if ratio else None,
        speedup_low=ratio.low if ratio and sure else None,
        speedup_high=ratio.high if ratio and sure else None,
        accuracy_db=entry.accuracy_db,
    )


def final(entry: Entry | CandidateReport) -> Standing:
    """A candidate that is out, or has won, as the outcome will say it."""
    ratio = entry.speedup if isinstance(entry, CandidateReport) else entry.proof or entry.speedup
    return Standing(
        entry.candidate.name,
        entry.status,
        entry.reason,
        latency_ms=entry.latency_ms,
        speedup=ratio.median if ratio else None,
        speedup_low=ratio.low if ratio else None,
        speedup_high=ratio.high if ratio else None,
        accuracy_db=entry.accuracy_db,
        of_best=entry.of_best if entry.status == "lost" else None,
    )
