"""When a contest knows enough: what the legs so far say of two sides, and whether to go on.

A leg is some rounds of fresh processes. Two processes of one model differ for their whole life, by where their
memory and threads happen to lie, and rounds of one process resemble each other; so a leg is one observation,
however many rounds it has, and only further legs make an interval narrower.

Within a leg the sides are compared by their least disturbed slices, each a median of its own runs. Others on the
machine only ever make a slice slower, often to twice its time, and a median of ratios moves with the luck of who
was struck. The figure and both times come from these slices. The interval also covers what the median rounds of
the legs say, so that a repetition on a machine that is busy otherwise lies within it; a verdict must not
contradict them, see `decide`. What all of this finds under recorded noise: `benchmarks/contest_simulation.py`.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from edgeopt.measure.limits import lies
from edgeopt.measure.report import Verdict
from edgeopt.measure.stats import Interval, direction, trimmed, trimmed_interval
from edgeopt.measure.terms import CONTEST, LUCK_PERCENT, Turns

# What each look may err, as a share of what all may: with independent normal noise, all looks together then err as
# often as they may (simulated, see tests/measure/test_sequential.py).
_SHARE = 0.13
# With fewer fresh processes luck is not averaged out, and between equal models smaller differences than this are
# seen too often (`benchmarks/contest_simulation.py --starting 100`).
_FRESH_LEGS = 3


_Ends = tuple[float, float, float]
"""A middle and the ends of its interval, as logarithms."""


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


def rules_of(terms: Turns) -> Rules:
    return Rules(
        looks=terms.looks,
        error=terms.error,
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
    confidence = 1 - _SHARE * rules.error
    calm = trimmed_interval([leg.calm for leg in legs], confidence)
    typical = trimmed_interval([leg.typical for leg in legs], confidence)
    alone = Interval(_exp(calm[0]), _exp(calm[1]), _exp(calm[2]), rounds, confidence)
    both = msgspec.structs.replace(
        alone, low=min(alone.low, _exp(typical[1])), high=max(alone.high, _exp(typical[2]))
    )
    least = _least(legs, rules)
    verdict = _verdict(count, alone, least)
    torn = count > 1 and _torn(calm, typical, verdict, math.log1p(rules.same_percent / 100))
    if torn:
        # There is no verdict but on what both say.
        verdict = _verdict(count, both, least)
    speedup = _told(alone, both, verdict)
    widest = max(abs(math.log(speedup.low)), abs(math.log(speedup.high))) if speedup.low > 0 else math.inf
    proved = verdict in {"faster", "slower"} or widest < math.log1p(rules.at_most_percent / 100)
    at_most = 100 * (_exp(widest) - 1) if verdict == "no difference seen" else None
    luck = _luck_percent(legs)
    proved = proved and all(lies(speedup, limit, luck) != "across" for limit in rules.limits)
    done = last or (proved and rounds >= rules.rounds_least)
    kept = [legs[k] for k in trimmed([leg.calm for leg in legs])]
    first_ms, second_ms = (
        _exp(math.fsum(values) / len(kept))
        for values in ([leg.first for leg in kept], [leg.second for leg in kept])
    )
    return Decision(done, verdict, speedup, at_most, looks, torn, luck, first_ms, second_ms)


def _told(alone: Interval, both: Interval, verdict: Verdict) -> Interval:
    """The interval of the undisturbed slices and the median rounds, on the side of 1x that the verdict names."""
    low = alone.low if verdict == "faster" and both.low <= 1 else both.low
    high = alone.high if verdict == "slower" and both.high >= 1 else both.high
    return msgspec.structs.replace(both, low=low, high=high)


def _torn(calm: _Ends, typical: _Ends, verdict: Verdict, same: float) -> bool:
    """Whether the median round points the other way than a verdict, or lies beyond an interval that has none."""
    if calm[1] > typical[2] or typical[1] > calm[2]:
        return True
    if verdict == "faster":
        return typical[0] < 0
    if verdict == "slower":
        return typical[0] > 0
    return max(calm[1] - typical[0], typical[0] - calm[2]) > same


def _least(legs: Sequence[Leg], rules: Rules) -> float:
    """The smallest factor that is worth a verdict."""
    return 1 + max(rules.same_percent, _luck_percent(legs)) / 100


def _luck_percent(legs: Sequence[Leg]) -> float:
    return 0.0 if sum(leg.fresh for leg in legs) >= _FRESH_LEGS else LUCK_PERCENT


def _verdict(legs: int, speedup: Interval, least: float) -> Verdict:
    return "too few rounds to tell" if legs < 2 else direction(speedup, least)


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf
