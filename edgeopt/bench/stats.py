"""The statistics of a contest: ratios within rounds, and how sure they are."""

import math
from collections.abc import Sequence

import msgspec
import numpy as np

_RESAMPLES = 2000
SAME = 1.02
"""Two processes of one and the same model differ by up to this much, by where their memory happens to lie; more
rounds make an interval narrower and not this."""


class Interval(msgspec.Struct, frozen=True):
    """A median with the interval that holds it with the stated confidence."""

    median: float
    low: float
    high: float
    rounds: int
    confidence: float = 0.95

    def __str__(self) -> str:
        return f"{self.median:.2f}x [{self.low:.2f} {self.high:.2f}]"


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
    # `outside` rounds may lie on each side as long as so many or fewer heads in `count` throws are rare enough.
    while below <= tail and outside < count // 2:
        outside += 1
        below += math.comb(count, outside) * 0.5**count
    median = float(np.median(ordered))
    if outside == 0:
        return Interval(median, 0.0, math.inf, count, confidence)
    return Interval(median, float(ordered[outside - 1]), float(ordered[-outside]), count, confidence)


def verdict(ratio: Interval) -> str:
    """In words, what a speed-up with this interval says."""
    # Equal sides fall all on one side of 1x with this chance, and then no interval of theirs holds 1x.
    if 2 * 0.5**ratio.rounds > 1 - ratio.confidence:
        return "too few rounds to tell"
    if ratio.low > 1.0 and ratio.median > SAME:
        return "faster"
    if ratio.high < 1.0 and ratio.median < 1 / SAME:
        return "slower"
    return "no difference seen"


def paired_ratios(baseline: Sequence[float], other: Sequence[float]) -> list[float]:
    """How many times faster `other` was than `baseline`, round by round."""
    return [b / o for b, o in zip(baseline, other, strict=True)]
