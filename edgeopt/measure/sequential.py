"""When a contest knows enough: what the legs so far say of two sides, and whether to go on.

A leg is some rounds of fresh processes. Two processes of one model differ for their whole life, by where their
memory and threads happen to lie, and rounds of one process resemble each other; so a leg is one observation,
however many rounds it has, and only further legs make an interval narrower.

Within a leg the sides are compared by their least disturbed slices, each a median of its own runs. Others on the
machine only ever make a slice slower, often to twice its time, and a median of ratios moves with the luck of who
was struck. The figure and both times come from these slices. The interval also covers what the median rounds of
the legs say, so that a repetition on a machine that is busy otherwise lies within it. This one interval decides
and is printed. What it finds under recorded noise: `benchmarks/contest_simulation.py`.
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

# With fewer fresh processes luck is not averaged out, and between equal models smaller differences than this are
# seen too often (`benchmarks/contest_simulation.py --starting 100`).
_FRESH_LEGS = 3


# The confidence of what the median rounds say. At that of the undisturbed slices, a busy machine would hide one
# real 5 % in four; at this one it hides one in thirty, and a side that jumps between two speeds is called faster
# less than half as often as by the undisturbed slices alone (simulated, see above).
_TYPICAL = 0.5


class Rules(msgspec.Struct, frozen=True):
    """How long a contest goes on, and when its answer counts."""

    rounds_least: int = 0
    """Not ended before, however clear the answer is."""
    rounds_most: int = 1000
    time_limit_s: float = 60.0
    """A leg that was begun is ended."""
    looks: tuple[int, ...] = CONTEST.looks
    """The numbers of legs after which it is judged."""
    error: float = CONTEST.error
    """The chance, over all looks and all pairs, of calling a difference where none is."""
    look_share: float = CONTEST.look_share
    """The share of `error` at each look."""
    fewest: int = 2
    """No difference is called with fewer legs."""
    same_percent: float = CONTEST.same_percent
    """A smaller difference is not worth a verdict."""
    at_most_percent: float = CONTEST.at_most_percent
    """Ended when a difference, if there is one, is proved to be smaller than this."""
    repeats_most: int = 10
    """The number of spoiled rounds that are run again; further ones count, and are marked."""
    patience_s: float = 60.0
    """A process that sends nothing for this time during a slice has hung."""
    load_patience_s: float | None = None
    """Likewise while it loads; None: by its backend and size, see `load_patience_s` of `contender`."""
    limits: tuple[float, ...] = ()
    """Speed-ups that somebody judges by: a contest goes on while one of them lies inside the interval."""

    @property
    def repeats(self) -> int:
        """Who asks for few rounds does not wait for many more: at most half as many are run again."""
        return min(self.repeats_most, self.rounds_most // 2)


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
    """What some rounds say of two sides, as logarithms of how many times faster the first is."""

    calm: float
    """Of the slices that were disturbed least."""
    typical: float
    """The median of the ratios within the rounds."""
    rounds: int
    fresh: bool = True
    """Run by processes that no other leg used."""
    first: float = 0.0
    """The least disturbed slice of each side in milliseconds, as a logarithm: `calm` is their difference."""
    second: float = 0.0


class Decision(msgspec.Struct, frozen=True):
    done: bool
    verdict: Verdict
    speedup: Interval
    at_most_percent: float | None
    looks: int
    torn: bool = False
    """Undisturbed slices and the median round do not agree."""
    luck_percent: float = 0.0
    """What the two may differ by for their whole life: there were too few fresh processes to average it out."""
    first_ms: float = 1.0
    """What each side takes, of the same slices as the figure: `second_ms / first_ms` is its median."""
    second_ms: float = 1.0


def leg_of(first_ms: Sequence[float], second_ms: Sequence[float], fresh: bool = True) -> Leg:
    """Compares the slices of two sides that ran interleaved."""
    first, second = np.log(np.asarray(first_ms)), np.log(np.asarray(second_ms))
    least, its_least = float(first.min()), float(second.min())
    return Leg(its_least - least, float(np.median(second - first)), len(first), fresh, least, its_least)


def decide(legs: Sequence[Leg], rules: Rules, last: bool = False) -> Decision | None:
    """What the legs so far say; None where there is nothing to say yet. `last`: no more can follow."""
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
    least = 1 + max(rules.same_percent, luck) / 100
    verdict: Verdict = TOO_FEW if count < rules.fewest else direction(speedup, least)
    # Processes that stay the same may hide as much besides.
    widest = _exp(max(abs(low), abs(high)) + math.log1p(luck / 100))
    at_most = 100 * (widest - 1)
    if verdict == NO_DIFFERENCE and at_most > EQUAL_PERCENT:
        verdict = "too noisy to tell"
    torn = count > 1 and verdict not in {"faster", "slower"} and not calm[1] <= typical[0] <= calm[2]
    proved = verdict in {"faster", "slower"} or at_most < rules.at_most_percent
    proved = proved and all(lies(speedup, limit, luck) != "across" for limit in rules.limits)
    done = last or (proved and rounds >= rules.rounds_least)
    kept = [legs[k] for k in trimmed([leg.calm for leg in legs])]
    first_ms, second_ms = (
        _exp(math.fsum(values) / len(kept))
        for values in ([leg.first for leg in kept], [leg.second for leg in kept])
    )
    told = at_most if verdict == NO_DIFFERENCE else None
    return Decision(done, verdict, speedup, told, looks, torn, luck, first_ms, second_ms)


def _luck_percent(legs: Sequence[Leg]) -> float:
    return 0.0 if sum(leg.fresh for leg in legs) >= _FRESH_LEGS else LUCK_PERCENT


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


@dataclass(slots=True)
class Pairs:
    """What the legs say of the first against each other side, in their order."""

    rules: Rules
    legs: list[list[Leg]]
    decisions: list[Decision | None] = field(default_factory=list)

    @classmethod
    def of(cls, others: int, rules: Rules) -> "Pairs":
        return cls(rules, [[] for _ in range(others)], [None] * others)

    def note(self, players: Sequence[Sliced], rounds: int, fresh: bool) -> None:
        """A leg of those whose processes ran to its end."""
        first, *others = players
        for legs, other in zip(self.legs, others, strict=True):
            if rounds and first.failure is None and other.failure is None:
                legs.append(leg_of(first.slices_ms[-rounds:], other.slices_ms[-rounds:], fresh))

    def judge(self, last: bool, is_open: Callable[[int], bool]) -> None:
        """A verdict stands once it is given: to look again would be to look more often than was paid for."""
        for place, (legs, before) in enumerate(zip(self.legs, self.decisions, strict=True)):
            if is_open(place) and not (before and before.done):
                self.decisions[place] = decide(legs, self.rules, last) or before
