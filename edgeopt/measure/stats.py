"""The statistics of a contest: ratios within rounds, and how sure they are."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, Literal, TypeVar

import msgspec
import numpy as np

from edgeopt import units

Number = TypeVar("Number", int, float)

_RESAMPLES = 2000
_ENOUGH_TO_TRIM = 9
SAME = 1.02
"""Two processes of one and the same model differ by up to this much, by where their memory happens to lie; more
rounds make an interval narrower and not this."""

EQUAL_PERCENT = 5.0
"""Sides are called equal only if the whole interval of their ratio is closer to 1x than this."""

FASTER: Final = "faster"
NO_DIFFERENCE: Final = "no difference seen"
TOO_NOISY: Final = "too noisy to tell"
TOO_FEW: Final = "too few rounds to tell"
UNDECIDED = (NO_DIFFERENCE, TOO_NOISY, TOO_FEW)
"""The verdicts that call neither side faster."""
Direction = Literal["faster", "slower", "no difference seen", "too noisy to tell"]


class Interval(msgspec.Struct, frozen=True):
    """A median with the interval that holds it with the stated confidence."""

    median: float
    low: float
    high: float
    rounds: int
    confidence: float = 0.95

    @property
    def usable(self) -> bool:
        """Narrow enough to say something."""
        return units.usable_interval(self.low, self.high)

    @property
    def stated(self) -> "Interval | None":
        """Returns the interval for records: None where it is not usable, because its ratio says nothing either."""
        return self if self.usable else None

    def __str__(self) -> str:
        return units.speedup_text(self.median, self.low, self.high)


def with_open_ends(plain: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Plain data with infinity where an interval has no upper end, for which JSON has no word but null."""
    if isinstance(plain, dict):
        found = {key: with_open_ends(value) for key, value in plain.items()}
        is_open = found.get("high", 0) is None and found.get("median") is not None
        return {**found, "high": math.inf} if is_open else found
    return [with_open_ends(each) for each in plain] if isinstance(plain, list | tuple) else plain


IDENTICAL: Final = "identical"
"""The verdict on a deployment and the same deployment: there is nothing to measure."""
UNITY = Interval(1.0, 1.0, 1.0, 0, 1.0)
"""How many times as fast something is as itself."""


def bootstrap_median(values: Sequence[float], confidence: float = 0.95, seed: int = 0) -> Interval:
    """The median of positive ratios and its percentile-bootstrap interval.

    On logarithms, where 2x and 0.5x are equally far from 1x.
    """
    logs = np.log(np.asarray(values, dtype=np.float64))
    drawn = np.random.default_rng(seed).integers(0, len(logs), (_RESAMPLES, len(logs)))
    medians = np.median(logs[drawn], axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(medians, [tail, 1 - tail])
    return Interval(float(np.exp(np.median(logs))), float(np.exp(low)), float(np.exp(high)), len(logs), confidence)


def sign_interval(values: Sequence[float], confidence: float) -> Interval:
    """The median of ratios and the interval between two of them that holds it with at least this confidence.

    It assumes nothing but that each round is as likely above the true median as below (the sign test turned
    round), and so it does not claim too much where rounds are few, as the bootstrap of a median does.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    count, tail, outside = len(ordered), (1 - confidence) / 2, 0
    below = 0.5**count
    # `outside` rounds may lie on each side as long as at most that many heads in `count` throws are rare enough.
    while below <= tail and outside < count // 2:
        outside += 1
        below += math.comb(count, outside) * 0.5**count
    median = float(np.median(ordered))
    if outside == 0:
        return Interval(median, 0.0, math.inf, count, confidence)
    return Interval(median, float(ordered[outside - 1]), float(ordered[-outside]), count, confidence)


def trimmed_interval(values: Sequence[float], confidence: float) -> tuple[float, float, float]:
    """The mean of the middle three fifths, and the ends of the interval that holds it (Yuen's, by Student's t).

    One process in five may be struck by bad luck, and it moves neither end much. Of fewer than nine values all
    count: to leave out some would cost more than their luck. The percentile bootstrap of so few would claim too
    much. One value alone has no ends.
    """
    count, outside = len(values), _outside(len(values))
    kept = [values[k] for k in trimmed(values)]
    middle = math.fsum(kept) / len(kept)
    if count < 2:
        return middle, -math.inf, math.inf
    # Those outside count as if they stood at the edge.
    winsorized = [kept[0]] * outside + kept + [kept[-1]] * outside
    mean = math.fsum(winsorized) / count
    squares = math.fsum((v - mean) ** 2 for v in winsorized)
    deviation = math.sqrt(squares / (len(kept) * (len(kept) - 1)))
    reach = student_quantile((1 - confidence) / 2, len(kept) - 1) * deviation
    return middle, middle - reach, middle + reach


def trimmed(values: Sequence[float]) -> list[int]:
    """The places of the values whose mean is the middle of `trimmed_interval`, the smallest first."""
    order, outside = _by_size(values), _outside(len(values))
    return order[outside : len(order) - outside]


def _by_size(values: Sequence[float]) -> list[int]:
    return sorted(range(len(values)), key=values.__getitem__)


def _outside(count: int) -> int:
    return count // 5 if count >= _ENOUGH_TO_TRIM else 0


@lru_cache(256)
def student_quantile(tail: float, degrees: int) -> float:
    """The value that Student's t with these degrees of freedom exceeds with the chance `tail` (below 1/2)."""
    low, high = 0.0, 2.0
    while _student_tail(high, degrees) > tail:
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_tail(middle, degrees) > tail else (low, middle)
    return (low + high) / 2


def _student_tail(value: float, degrees: int) -> float:
    """The chance of more than `value`, by the finite sums of whole degrees (Abramowitz and Stegun, 26.7)."""
    angle = math.atan(value / math.sqrt(degrees))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = degrees % 2
    term, total = (cosine, cosine) if odd else (1.0, 1.0)
    for k in range(2 + odd, degrees - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    if degrees == 1:
        total = 0.0
    within = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return (1 - within) / 2


def verdict(ratio: Interval) -> str:
    """In words, what a speed-up with this interval says."""
    # Equal sides fall all on one side of 1x with this chance, and then no interval of theirs holds 1x.
    if 2 * 0.5**ratio.rounds > 1 - ratio.confidence:
        return TOO_FEW
    return direction(ratio, SAME)


def direction(ratio: Interval, least: float = 1.0) -> Direction:
    """What an interval says where there are rounds enough; a difference below the factor `least` is not called.

    An interval too wide to print decides nothing. "No difference" is a claim too: it needs the whole interval
    within `EQUAL_PERCENT` of 1x.
    """
    if not ratio.usable:
        return TOO_NOISY
    if ratio.low > 1.0 and ratio.median > least:
        return FASTER
    if ratio.high < 1.0 and ratio.median < 1 / least:
        return "slower"
    equal = 1 + EQUAL_PERCENT / 100
    return NO_DIFFERENCE if 1 / equal <= ratio.low and ratio.high <= equal else TOO_NOISY


def paired_ratios(baseline: Sequence[float], other: Sequence[float]) -> list[float]:
    """How many times faster `other` was than `baseline`, round by round."""
    return [b / o for b, o in zip(baseline, other, strict=True)]


def total(values: Sequence[Number | None]) -> Number | None:
    """None where one of them is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
