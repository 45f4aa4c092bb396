"""The statistics of a contest: ratios within rounds, and their confidence intervals."""

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
"""Factor by which two processes of one model may differ, because of the addresses of their memory; more rounds
make an interval narrower, but not this."""

EQUAL_PERCENT = 5.0
"""Largest distance from 1x, in percent, of an interval whose sides are called equal."""

FASTER: Final = "faster"
NO_DIFFERENCE: Final = "no difference seen"
TOO_NOISY: Final = "too noisy to tell"
TOO_FEW: Final = "too few rounds to tell"
UNDECIDED = (NO_DIFFERENCE, TOO_NOISY, TOO_FEW)
"""The verdicts that call neither side faster."""
Direction = Literal["faster", "slower", "no difference seen", "too noisy to tell"]


class Interval(msgspec.Struct, frozen=True):
    """A median, and the interval that contains it with the stated confidence."""

    median: float
    low: float
    high: float
    rounds: int
    confidence: float = 0.95

    @property
    def usable(self) -> bool:
        """Whether the interval is narrow enough to be meaningful."""
        return units.usable_interval(self.low, self.high)

    @property
    def stated(self) -> "Interval | None":
        """Returns the interval for records: None where it is not usable, because its ratio says nothing either."""
        return self if self.usable else None

    def __str__(self) -> str:
        return units.speedup_text(self.median, self.low, self.high)


def with_open_ends(plain: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Returns plain data with null replaced by infinity where an interval has no upper end."""
    if isinstance(plain, dict):
        found = {key: with_open_ends(value) for key, value in plain.items()}
        is_open = found.get("high", 0) is None and found.get("median") is not None
        return {**found, "high": math.inf} if is_open else found
    return [with_open_ends(each) for each in plain] if isinstance(plain, list | tuple) else plain


IDENTICAL: Final = "identical"
"""Verdict on two identical deployments, which need no measurement."""
UNITY = Interval(1.0, 1.0, 1.0, 0, 1.0)
"""Speed-up of a deployment over itself."""


def bootstrap_median(values: Sequence[float], confidence: float = 0.95, seed: int = 0) -> Interval:
    """Returns the median of positive ratios and its percentile-bootstrap interval.

    Computed from logarithms, for which 2x and 0.5x are equally far from 1x.
    """
    logs = np.log(np.asarray(values, dtype=np.float64))
    drawn = np.random.default_rng(seed).integers(0, len(logs), (_RESAMPLES, len(logs)))
    medians = np.median(logs[drawn], axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(medians, [tail, 1 - tail])
    return Interval(float(np.exp(np.median(logs))), float(np.exp(low)), float(np.exp(high)), len(logs), confidence)


def sign_interval(values: Sequence[float], confidence: float) -> Interval:
    """Returns the median of ratios and the interval between two of them that has at least this confidence.

    It only assumes that each round is as likely above the true median as below (an inverted sign test), and so
    it does not claim too much with few rounds, as the bootstrap of a median does.
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
    """Returns the mean of the middle three fifths, and the ends of its interval (Yuen's, by Student's t).

    One process in five may be disturbed without moving either end much. Fewer than nine values all count,
    because to exclude some would cost more than it gains. The percentile bootstrap of so few would claim too
    much. For a single value the ends are infinite.
    """
    count, outside = len(values), _outside(len(values))
    kept = [values[k] for k in trimmed(values)]
    middle = math.fsum(kept) / len(kept)
    if count < 2:
        return middle, -math.inf, math.inf
    # Excluded values count as if they were equal to the nearest one that is kept.
    winsorized = [kept[0]] * outside + kept + [kept[-1]] * outside
    mean = math.fsum(winsorized) / count
    squares = math.fsum((v - mean) ** 2 for v in winsorized)
    deviation = math.sqrt(squares / (len(kept) * (len(kept) - 1)))
    reach = student_quantile((1 - confidence) / 2, len(kept) - 1) * deviation
    return middle, middle - reach, middle + reach


def trimmed(values: Sequence[float]) -> list[int]:
    """Returns the indices of the values whose mean is the middle of `trimmed_interval`, the smallest first."""
    order, outside = _by_size(values), _outside(len(values))
    return order[outside : len(order) - outside]


def _by_size(values: Sequence[float]) -> list[int]:
    return sorted(range(len(values)), key=values.__getitem__)


def _outside(count: int) -> int:
    return count // 5 if count >= _ENOUGH_TO_TRIM else 0


@lru_cache(256)
def student_quantile(tail: float, degrees: int) -> float:
    """Returns the value that Student's t with these degrees of freedom exceeds with chance `tail` (below 1/2)."""
    low, high = 0.0, 2.0
    while _student_tail(high, degrees) > tail:
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_tail(middle, degrees) > tail else (low, middle)
    return (low + high) / 2


def _student_tail(value: float, degrees: int) -> float:
    """Returns the chance of more than `value`, by finite sums of whole degrees (Abramowitz and Stegun, 26.7)."""
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
    """Returns the verdict in words on a speed-up with this interval."""
    # All rounds of equal sides lie on one side of 1x with this chance, and then their interval excludes 1x.
    if 2 * 0.5**ratio.rounds > 1 - ratio.confidence:
        return TOO_FEW
    return direction(ratio, SAME)


def direction(ratio: Interval, minimum: float = 1.0) -> Direction:
    """Returns the verdict of an interval from enough rounds; a median below the factor `minimum` is no difference.

    An interval too wide to print decides nothing. "No difference" is a claim too: it needs the whole interval
    within `EQUAL_PERCENT` of 1x.
    """
    if not ratio.usable:
        return TOO_NOISY
    if ratio.low > 1.0 and ratio.median > minimum:
        return FASTER
    if ratio.high < 1.0 and ratio.median < 1 / minimum:
        return "slower"
    equal = 1 + EQUAL_PERCENT / 100
    return NO_DIFFERENCE if 1 / equal <= ratio.low and ratio.high <= equal else TOO_NOISY


def paired_ratios(baseline: Sequence[float], other: Sequence[float]) -> list[float]:
    """Returns the speed-up of `other` over `baseline` in each round."""
    return [b / o for b, o in zip(baseline, other, strict=True)]


def total(values: Sequence[Number | None]) -> Number | None:
    """Returns the sum of the values, or None if one of them is None."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
