"""Bounds of shares: from counts on some samples to the share on others."""

import math

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

ONE_SIDED_95 = 1.645
"""The normal quantile of 95 %."""


def share_low(shares: Values) -> float:
    """The lower end of Wilson's interval for the mean of these shares.

    Shares of several rows in one sample vary less than a yes or no, so this claims too little, if anything.
    """
    count, mean, z = len(shares), float(shares.mean()), ONE_SIDED_95
    center = mean + z * z / (2 * count)
    spread = z * math.sqrt(max(mean * (1 - mean), 0.0) / count + z * z / (4 * count * count))
    return max(0.0, (center - spread) / (1 + z * z / count))


def drop_high(before: Values, after: Values) -> float:
    """The upper end of the interval for how much the mean share fell on the same samples.

    Agresti and Min's for matched pairs, with half a pair added to each of the four cases: without these, a drop
    that none of a few samples shows would count as impossible.
    """
    fell = after < before
    lost = float((before - after)[fell].sum()) + 0.5
    won = float((after - before)[~fell].sum()) + 0.5
    count = len(before) + 2.0
    variance = (lost + won - (lost - won) ** 2 / count) / (count * count)
    return min(1.0, (lost - won) / count + ONE_SIDED_95 * math.sqrt(max(variance, 0.0)))
