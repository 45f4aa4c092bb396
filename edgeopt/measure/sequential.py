"""Decisions of a contest: the speed-up of two sides over the legs so far, and whether to continue.

A leg is some rounds of fresh processes. Two processes of one model differ for their whole life, because of the
addresses of their memory and the placement of their threads, and rounds of one process resemble each other; so a
leg is one observation, however many rounds it has, and only further legs make an interval narrower.

Within a leg the sides are compared by their least disturbed slices, each a median of its own runs. Other
processes on the machine only make a slice slower, often to twice its time, and a median of ratios depends on
which side was disturbed. The figure and both times come from these slices. The interval also covers the result
of the legs' median rounds, so that a repetition on a busy machine lies within it. The same interval decides and
is printed. Results under recorded noise: `benchmarks/contest_simulation.py`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np

from edgeopt.measure.report import Verdict, lies
from edgeopt.measure.rounds import Sliced
from edgeopt.measure.schedules import CONTEST, LUCK_PERCENT, Schedule
from edgeopt.measure.stats import (
    EQUAL_PERCENT,
    NO_DIFFERENCE,
    TOO_FEW,
    Interval,
    direction,
    trimmed,
    trimmed_interval,
)

# With fewer fresh processes their differences are not averaged out, and differences between equal models that
# are smaller than this are reported too often (`benchmarks/contest_simulation.py --starting 100`).
_FRESH_LEGS = 3


# The confidence of the interval of median rounds. At that of the undisturbed slices, a busy machine would hide
# one real 5 % in four; at this one it hides one in thirty, and a side that switches between two speeds is called
# faster less than half as often as by the undisturbed slices alone (simulated, see above).
_TYPICAL = 0.5


class Rules(msgspec.Struct, frozen=True):
    """Rules for the length of a contest and for its verdict."""

    min_rounds: int = 0
    """The fewest rounds, even if the answer is clear before."""
    max_rounds: int = 1000
    time_limit_s: float = 60.0
    """Time limit in seconds; a leg that was begun is finished."""
    looks: tuple[int, ...] = CONTEST.looks
    """Numbers of legs after which the pairs are judged."""
    error: float = CONTEST.error
    """Chance, over all looks and all pairs, of reporting a difference between equal sides."""
    look_share: float = CONTEST.look_share
    """Share of `error` at each look."""
    fewest: int = 2
    """The fewest legs for reporting a difference."""
    same_percent: float = CONTEST.same_percent
    """Smallest difference that gives a verdict, in percent."""
    at_most_percent: float = CONTEST.at_most_percent
    """Difference in percent that ends a contest once any difference is proved to be smaller."""
    max_repeats: int = 10
    """The most spoiled rounds that are run again; further ones count, and are marked."""
    patience_s: float = 60.0
    """Time in seconds without an answer during a slice, after which a process counts as hung."""
    load_patience_s: float | None = None
    """The same while loading; None: depends on backend and size, see `load_patience_s` of `contender`."""
    limits: tuple[float, ...] = ()
    """Speed-up limits of the user; a contest continues while one of them lies inside the interval."""

    @property
    def repeats(self) -> int:
        """The most repeated rounds: at most half of `max_rounds`, so that a short contest stays short."""
        return min(self.max_repeats, self.max_rounds // 2)


def rules_of(terms: Schedule) -> Rules:
    return Rules(
        looks=terms.looks,
        error=terms.error,
        look_share=terms.look_share,
        fewest=max(2, terms.fewest_legs),
        same_percent=terms.same_percent,
        at_most_percent=terms.at_most_percent,
    )


class Leg(NamedTuple):
    """Results of some rounds for two sides, as logarithms of the first side's speed-up."""

    calm: float
    """Ratio of the least disturbed slices."""
    typical: float
    """Median of the ratios within the rounds."""
    rounds: int
    fresh: bool = True
    """Whether the leg's processes ran no other leg."""
    first: float = 0.0
    """Least disturbed slice of each side in milliseconds, as a logarithm; `calm` is their difference."""
    second: float = 0.0


class Decision(msgspec.Struct, frozen=True):
    done: bool
    verdict: Verdict
    speedup: Interval
    at_most_percent: float | None
    looks: int
    torn: bool = False
    """Whether the undisturbed slices and the median round disagree."""
    luck_percent: float = 0.0
    """Percent by which the sides may differ for their whole life, if too few fresh processes average it out."""
    first_ms: float = 1.0
    """Time of each side, from the slices of the figure: `second_ms / first_ms` is its median."""
    second_ms: float = 1.0


def leg_of(first_ms: Sequence[float], second_ms: Sequence[float], fresh: bool = True) -> Leg:
    """Compares the slices of two sides that ran interleaved."""
    first, second = np.log(np.asarray(first_ms)), np.log(np.asarray(second_ms))
    minimum, other_min = float(first.min()), float(second.min())
    return Leg(other_min - minimum, float(np.median(second - first)), len(first), fresh, minimum, other_min)


def decide(legs: Sequence[Leg], rules: Rules, last: bool = False) -> Decision | None:
    """Decides from the legs so far; returns None between looks. `last`: no further leg follows."""
    count = len(legs)
    if not count or (count not in rules.looks and not last):
        return None
    looks = sum(look <= count for look in rules.looks) + (count not in rules.looks)
    rounds = sum(leg.rounds for leg in legs)
    confidence = 1 - rules.look_share * rules.error
    calm = trimmed_interval([leg.calm for leg in legs], confidence)
    typical = trimmed_interval([leg.typical for leg in legs], _TYPICAL)
    low, high = min(calm[1], typical[1]), max(calm[2], typical[2])
    speedup = Interval(_exp(calm[0]), _exp(low), _exp(high), rounds, confidence)
    luck = _luck_percent(legs)
    minimum = 1 + max(rules.same_percent, luck) / 100
    verdict: Verdict = TOO_FEW if count < rules.fewest else direction(speedup, minimum)
    # Processes that stay the same may hide as much besides.
    widest = _exp(max(abs(low), abs(high)) + math.log1p(luck / 100))
    at_most = 100 * (widest - 1)
    if verdict == NO_DIFFERENCE and at_most > EQUAL_PERCENT:
        verdict = "too noisy to tell"
    torn = count > 1 and verdict not in {"faster", "slower"} and not calm[1] <= typical[0] <= calm[2]
    proved = verdict in {"faster", "slower"} or at_most < rules.at_most_percent
    proved = proved and all(lies(speedup, limit, luck) != "across" for limit in rules.limits)
    done = last or (proved and rounds >= rules.min_rounds)
    kept = [legs[k] for k in trimmed([leg.calm for leg in legs])]
    first_ms, second_ms = (
        _exp(math.fsum(values) / len(kept))
        for values in ([leg.first for leg in kept], [leg.second for leg in kept])
    )
    stated = at_most if verdict == NO_DIFFERENCE else None
    return Decision(done, verdict, speedup, stated, looks, torn, luck, first_ms, second_ms)


def _luck_percent(legs: Sequence[Leg]) -> float:
    return 0.0 if sum(leg.fresh for leg in legs) >= _FRESH_LEGS else LUCK_PERCENT


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


@dataclass(slots=True)
class Pairs:
    """Legs and decisions of the first against each other side, in their order."""

    rules: Rules
    legs: list[list[Leg]]
    decisions: list[Decision | None] = field(default_factory=list)

    @classmethod
    def of(cls, others: int, rules: Rules) -> "Pairs":
        return cls(rules, [[] for _ in range(others)], [None] * others)

    def note(self, players: Sequence[Sliced], rounds: int, fresh: bool) -> None:
        """Adds a leg for each pair whose processes ran to its end."""
        first, *others = players
        for legs, other in zip(self.legs, others, strict=True):
            if rounds and first.failure is None and other.failure is None:
                legs.append(leg_of(first.slices_ms[-rounds:], other.slices_ms[-rounds:], fresh))

    def judge(self, last: bool, is_open: Callable[[int], bool]) -> None:
        """Judges each open pair; a final verdict is not judged again, because each further look may err."""
        for place, (legs, before) in enumerate(zip(self.legs, self.decisions, strict=True)):
            if is_open(place) and not (before and before.done):
                self.decisions[place] = decide(legs, self.rules, last) or before
