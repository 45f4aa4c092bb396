"""The last values of a number against its first ones: a Kolmogorov-Smirnov test on a few quantiles.

The distance of two distributions is looked at between and at EDGES quantiles of the first values, so it is at most
that of the full test, and its level holds. All of it is bounded in size and needs no library.
"""

import math
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from statistics import median

import msgspec

EDGES = 64


class Reference(msgspec.Struct, frozen=True):
    """The distribution of the first values."""

    count: int
    edges: tuple[float, ...]
    """Ascending, each once."""
    shares: tuple[float, ...]
    """Share of the values up to each cell; a cell is an edge, or lies before, between or behind the edges."""

    @property
    def sound(self) -> bool:
        """Whether a file that holds it is not damaged."""
        cells = 2 * len(self.edges) + 1
        return (
            self.count > 0 and cells > 1 and len(self.shares) == cells and list(self.edges) == sorted(self.edges)
        )

    @property
    def median(self) -> float:
        cell = bisect_left(self.shares, 0.5)
        return self.edges[min(cell // 2, len(self.edges) - 1)]


def reference_of(values: Sequence[float]) -> Reference:
    ordered = sorted(values)
    last = len(ordered) - 1
    edges = sorted({ordered[round(k * last / (EDGES - 1))] for k in range(EDGES)})
    counts = [0] * (2 * len(edges) + 1)
    for value in ordered:
        counts[_cell(edges, value)] += 1
    return Reference(len(ordered), tuple(edges), tuple(each / len(ordered) for each in accumulate(counts)))


def _cell(edges: Sequence[float], value: float) -> int:
    return bisect_left(edges, value) + bisect_right(edges, value)


class Window:
    """The last values beside their reference."""

    def __init__(self, reference: Reference, length: int) -> None:
        self.reference = reference
        self._values: deque[tuple[float, int]] = deque()
        self._length = length
        self._counts = [0] * len(reference.shares)

    def add(self, value: float) -> None:
        cell = _cell(self.reference.edges, value)
        self._values.append((value, cell))
        self._counts[cell] += 1
        if len(self._values) > self._length:
            self._counts[self._values.popleft()[1]] -= 1

    def __len__(self) -> int:
        return len(self._values)

    @property
    def median(self) -> float:
        return median(value for value, _ in self._values)

    def distance(self) -> float:
        """Returns the largest difference of the two distributions, from 0 to 1."""
        count = len(self._values)
        return max(
            abs(found / count - share)
            for found, share in zip(accumulate(self._counts), self.reference.shares, strict=True)
        )


def alarm_distance(first: int, last: int, level: float) -> float:
    """Returns the distance that two samples of one distribution exceed with at most this probability.

    The two-sample form of the Dvoretzky-Kiefer-Wolfowitz inequality (Wei and Dudley 2012).
    """
    return math.sqrt(math.log(2 / level) / 2 * (first + last) / (first * last))
