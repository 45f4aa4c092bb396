"""Short runs again, in fresh processes, before they are called faster.

Where a process happens to lie in memory and on the cores makes it a few per cent faster or slower for as long as
it lives, and more rounds of the same two processes only make one sure of that.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from edgeopt.bench.contender import Contender
from edgeopt.bench.rounds import run_rounds
from edgeopt.bench.stats import paired_ratios
from edgeopt.errors import TrialError
from edgeopt.search.prepare import Search

SHORT_MS = 2.0
"""Longer runs differ less from process to process."""
CLEAR = 1.5
"""What is so much faster is not so by where it lies."""
_LEGS = 3


@dataclass(frozen=True, slots=True)
class Sides:
    """Those who are measured against each other."""

    bundle: Contender
    rivals: tuple[Contender, ...]
    """The baseline, called in one way or in two."""
    today: tuple[Contender, ...] = ()

    @property
    def others(self) -> tuple[Contender, ...]:
        return (*self.rivals, *self.today)

    @property
    def every(self) -> tuple[Contender, ...]:
        return (*self.others, self.bundle)

    def forget(self) -> None:
        """What was measured so far does not count."""
        for each in self.every:
            each.slices_ms.clear()
            each.latencies_ms.clear()
            each.laps.clear()

    def fallen(self) -> str | None:
        return next((each.failure for each in (self.bundle, *self.others) if each.failure), None)


def unsteady(
    search: Search,
    sides: Sides,
    faster: Sequence[Contender],
    start: Callable[[ExitStack], Sides],
    rounds: int,
    span_ms: float,
) -> list[Contender]:
    """Of those that the bundle seems to outrun, the ones that some fresh processes do not say the same of.

    What is measured here is added to what is known of the sides. TrialError where one falls.
    """
    found = [each for each in faster if _is_close(each, sides.bundle)]
    doubts: list[Contender] = []
    for leg in range(_LEGS if found else 0):
        late = time.monotonic() >= search.until(1.0) or search.stop.is_set()
        if (leg and late) or len(doubts) == len(found):
            break
        with ExitStack() as stack:
            fresh = start(stack)
            # The first round warms all up together and is not counted.
            run_rounds(list(fresh.every), 1, span_ms)
            fresh.forget()
            for place in range(rounds):
                run_rounds(list(fresh.every), 1, span_ms, first=place)
            if failure := fresh.fallen():
                raise TrialError(failure)
            for mine, its in zip(sides.every, fresh.every, strict=True):
                if _is_in(mine, found) and not _is_in(mine, doubts) and _median(its, fresh.bundle) <= 1.0:
                    doubts.append(mine)
                mine.slices_ms += its.slices_ms
                mine.latencies_ms += its.latencies_ms
    return doubts


def _is_in(one: Contender, several: Sequence[Contender]) -> bool:
    """The very one; contenders with equal figures are not the same."""
    return any(one is each for each in several)


def _is_close(other: Contender, new: Contender) -> bool:
    return float(np.median(new.slices_ms)) < SHORT_MS and _median(other, new) < CLEAR


def _median(other: Contender, new: Contender) -> float:
    return float(np.median(paired_ratios(other.slices_ms, new.slices_ms)))
