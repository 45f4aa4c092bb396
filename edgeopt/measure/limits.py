"""The limits that a build holds a measurement to, and what an interval says of them."""

import math
from typing import Literal

import msgspec

from edgeopt.measure.stats import Interval

LimitName = Literal["max-slowdown", "min-speedup"]
State = Literal["held", "broken", "undecided", "not judged"]
Undecided = Literal["pass", "fail"]


class Limits(msgspec.Struct, frozen=True):
    """As fractions and factors: 0.02 for `--max-slowdown 2%`, 1.1 for `--min-speedup 1.1x`."""

    max_slowdown: float | None = None
    min_speedup: float | None = None
    undecided: Undecided = "pass"
    """What a `max-slowdown` inside the interval does."""

    @property
    def least(self) -> tuple[tuple[LimitName, float], ...]:
        """The least speed-up that each of them allows: one that may take 1.02 times as long has 1/1.02."""
        found: list[tuple[LimitName, float]] = []
        if self.max_slowdown is not None:
            found.append(("max-slowdown", 1 / (1 + self.max_slowdown)))
        if self.min_speedup is not None:
            found.append(("min-speedup", self.min_speedup))
        return tuple(found)

    def written(self, limit: LimitName) -> str:
        """As on a command line: `--max-slowdown 2%`."""
        value = f"{100 * (self.max_slowdown or 0):g}%" if limit == "max-slowdown" else f"{self.min_speedup:g}x"
        return f"--{limit} {value}"


class Check(msgspec.Struct, frozen=True):
    """One limit, and one comparison that was held to it."""

    limit: LimitName
    least: float
    """The least speed-up that it allows."""
    first: str
    second: str
    state: State
    """What the interval says: wholly on the right side of the limit, wholly beyond it, or neither."""
    passed: bool
    """An undecided `max-slowdown` passes, for no slowdown is proved, unless `undecided` is "fail"; an undecided
    `min-speedup` never does."""
    sentence: str
    speedup: Interval | None = None
    """None where there is no interval, and so nothing to judge by."""
    measured: str = ""
    """What was compared, where it is not the time of a run: `the time to the first answer`."""


class Judgement(msgspec.Struct, frozen=True):
    """What the limits say of a measurement."""

    limits: Limits
    checks: tuple[Check, ...]
    passed: bool
    """Whether every check does."""


def judgement(limits: Limits, checks: tuple[Check, ...]) -> Judgement:
    """Nothing checked is nothing passed."""
    return Judgement(limits, checks, bool(checks) and all(each.passed for each in checks))


def lies(speedup: Interval, least: float, luck_percent: float = 0.0) -> Literal["above", "below", "across"]:
    """On which side of a limit an interval lies as a whole.

    `luck_percent`: sides that stayed in the same processes may differ by this for their whole life, which no
    interval of theirs shows, so their middle must be this far beyond the limit too.
    """
    luck = 1 + luck_percent / 100
    if speedup.low >= least and speedup.median >= least * luck:
        return "above"
    if speedup.high < least and speedup.median < least / luck:
        return "below"
    return "across"


def known(speedup: Interval) -> bool:
    """Whether it ends on both sides: too few rounds give an interval that says nothing."""
    return speedup.low > 0 and math.isfinite(speedup.high)
