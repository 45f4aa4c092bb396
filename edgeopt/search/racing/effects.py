"""What each choice of a runtime option does to the time, learned from few contests, and which point to try next.

The logarithm of the time is taken for a sum: one part for what is run, and one for each option that is not where
it starts, the same for all that runs on one backend. Normal distributions throughout, so that each expectation
comes with its uncertainty: a choice that was never tried may do some percent either way.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Value = str | int | float | bool

# Priors, in logarithms: the time itself may be anything; this is how much a choice changes it.
_ANY_TIME = 2.0
_ONE_CHOICE = 0.15
# A sum is not the whole truth.
_MISFIT = 0.01


class Point(NamedTuple):
    """What is run (a variant with all that is not tuned), on which backend, and the choices that differ from where
    options start."""

    subject: str
    backend: str
    choices: Mapping[str, Value]

    def parts(self) -> list[tuple[str, ...]]:
        chosen = [(self.backend, option, repr(value)) for option, value in sorted(self.choices.items())]
        return [(self.subject, self.backend), *chosen]


class Gain(NamedTuple):
    """Of a point against another, in logarithms of the time: what is expected, and how sure."""

    expected: float
    spread: float

    @property
    def hoped(self) -> float:
        """What trying it is worth: the gain as it may turn out, where it is one, by its chance."""
        z = self.expected / self.spread
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        return self.expected * 0.5 * (1 + math.erf(z / math.sqrt(2))) + self.spread * density


class Effects:
    """Each contest that is learned says how much longer one point takes than another."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str, ...], int] = {}
        self._rows: list[tuple[list[tuple[str, ...]], list[tuple[str, ...]], float, float]] = []
        self._mean: NDArray[np.float64] = np.zeros(0)
        self._covariance: NDArray[np.float64] = np.zeros((0, 0))

    def learn(self, one: Point, other: Point, longer: float, spread: float) -> None:
        """`longer`: the logarithm of the one's time over the other's; `spread`: how far that may be off."""
        self._rows.append((one.parts(), other.parts(), longer, spread))
        self._fit()

    def unknown(self, point: Point) -> int:
        """How many of its choices were never part of a contest."""
        return sum(part not in self._columns for part in point.parts()[1:])

    def gain(self, point: Point, over: Point) -> Gain:
        """Of the one over the other, more than 0 where it takes less time."""
        difference = np.zeros(len(self._columns))
        fresh: dict[tuple[str, ...], float] = {}
        for parts, sign in ((over.parts(), 1.0), (point.parts(), -1.0)):
            for part in parts:
                if part in self._columns:
                    difference[self._columns[part]] += sign
                else:
                    fresh[part] = fresh.get(part, 0.0) + sign
        variance = float(difference @ self._covariance @ difference) + _MISFIT**2
        variance += sum((sign * _before(part)) ** 2 for part, sign in fresh.items())
        return Gain(float(difference @ self._mean), math.sqrt(variance))

    def _fit(self) -> None:
        for one, other, _, _ in self._rows[-1:]:
            for part in (*one, *other):
                self._columns.setdefault(part, len(self._columns))
        matrix = np.zeros((len(self._rows), len(self._columns)))
        longer, spreads = np.zeros(len(self._rows)), np.zeros(len(self._rows))
        for place, (one, other, found, spread) in enumerate(self._rows):
            for part in one:
                matrix[place, self._columns[part]] += 1
            for part in other:
                matrix[place, self._columns[part]] -= 1
            longer[place], spreads[place] = found, math.hypot(spread, _MISFIT)
        weighted = matrix / spreads[:, None] ** 2
        precision = matrix.T @ weighted + np.diag([_before(part) ** -2 for part in self._columns])
        self._covariance = np.asarray(np.linalg.inv(precision), np.float64)
        self._mean = self._covariance @ (weighted.T @ longer)


def best_point(points: Sequence[Point], effects: Effects, over: Point) -> tuple[Point, Gain] | None:
    """The most promising point, among those with at most one untried choice.

    If a point with two new choices is slow, neither of them is known to be the cause.
    """
    able = [point for point in points if effects.unknown(point) <= 1]
    if not able:
        return None
    gains = [effects.gain(point, over) for point in able]
    place = max(range(len(able)), key=lambda k: gains[k].hoped)
    return able[place], gains[place]


def _before(part: tuple[str, ...]) -> float:
    return _ANY_TIME if len(part) == 2 else _ONE_CHOICE
