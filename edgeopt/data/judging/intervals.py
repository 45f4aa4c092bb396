"""Confidence intervals of shares, and of the difference of paired shares."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

Z_95 = 1.959964
"""The normal quantile of a two-sided 95 % interval."""
_STEPS = 60
_MAX_SAMPLES_NEEDED = 10_000_000


def share_interval(shares: Values) -> tuple[float, float]:
    """Returns Wilson's 95 % interval for the mean of shares.

    Shares of several rows in one sample vary less than a yes or no, so the interval is rather too wide.
    """
    count, mean, z = len(shares), float(shares.mean()), Z_95
    center = mean + z * z / (2 * count)
    spread = z * math.sqrt(max(mean * (1 - mean), 0.0) / count + z * z / (4 * count * count))
    scale = 1 + z * z / count
    return max(0.0, (center - spread) / scale), min(1.0, (center + spread) / scale)


def paired_changes(before: Values, after: Values) -> tuple[float, float]:
    """Returns the sums of what the samples lost and won."""
    fell = after < before
    return float((before - after)[fell].sum()), float((after - before)[~fell].sum())


def paired_drop_interval(lost: float, won: float, count: float) -> tuple[float, float]:
    """Returns Tango's 95 % score interval for how much the mean share falls on `count` paired samples.

    It inverts the score test behind McNemar's, so that a few samples without a change do not rule out a drop.
    """
    drop = (lost - won) / count

    def score(delta: float) -> float:
        b = -lost - won + (2 * count - lost + won) * delta
        c = -won * delta * (1 - delta)
        share = (math.sqrt(max(b * b - 8 * count * c, 0.0)) - b) / (4 * count)
        variance = count * (2 * share + delta * (1 - delta))
        return (lost - won - count * delta) / math.sqrt(max(variance, 1e-300))

    return (
        _bisected(lambda delta: score(delta) > Z_95, -1.0, drop),
        _bisected(lambda delta: score(delta) > -Z_95, drop, 1.0),
    )


def _bisected(is_left: Callable[[float], bool], low: float, high: float) -> float:
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_left(middle) else (low, middle)
    return (low + high) / 2


def samples_needed(lost: float, won: float, count: int, largest_drop: float) -> int | None:
    """Returns how many samples like these show a drop of at most `largest_drop`; None if their own is as large."""
    if (lost - won) / count >= largest_drop:
        return None
    low, high = 1, _MAX_SAMPLES_NEEDED
    while low < high:
        middle = (low + high) // 2
        scale = middle / count
        if paired_drop_interval(lost * scale, won * scale, middle)[1] <= largest_drop:
            high = middle
        else:
            low = middle + 1
    return low


def rounded_up(count: int) -> int:
    """Rounds a number of samples up to two digits, as it is an estimate."""
    unit = int(10 ** max(0, len(str(count)) - 2))
    return math.ceil(count / unit) * unit


def unseen_share(count: int) -> float:
    """Returns the largest share, at 95 %, of a kind of sample that does not occur among `count` samples."""
    return Z_95**2 / (count + Z_95**2)


def resampled_interval(values: NDArray[Any], value: float, unseen: float) -> tuple[float, float]:
    """Returns the 95 % interval of resampled values; where they are all alike, `unseen` to each side."""
    low, high = (float(np.quantile(values, each)) for each in (0.025, 0.975))
    if high == low:
        return value - unseen, value + unseen
    return min(low, value), max(high, value)
