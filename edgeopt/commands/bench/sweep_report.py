"""What a sweep found: a point for each value, and which value is best for how many runs."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from edgeopt.measure.messages import Memory
from edgeopt.measure.report import Verdict
from edgeopt.measure.stats import Interval

SCHEMA = 1
TOTALS = (1, 100, 10_000)
"""The numbers of runs in the totals, if the user gives none."""
_SAME = 1.02
"""Inference that differs by less is no reason to wait longer for the creation."""

Value = str | int | float | bool


class SweepPoint(msgspec.Struct, frozen=True):
    value: Value
    create_ms: float | None = None
    """Loading the model: what the runtime does before it can run."""
    create_lowest_ms: float | None = None
    create_highest_ms: float | None = None
    first_run_ms: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    throughput_per_s: float | None = None
    item_ms: float | None = None
    """By item of the axis: a sample of a batch, a step of a sequence."""
    gain: Interval | None = None
    """How many times faster than the first point, by item where there are items; paired within rounds."""
    verdict: Verdict | None = None
    """Of `gain`; None for the first point, and by item, because runs hold different numbers of items."""
    memory: Memory | None = None
    totals_ms: dict[int, float] = {}
    """Loading plus the number of runs."""
    failure: str | None = None


class Stretch(msgspec.Struct, frozen=True):
    """From this number of runs to the next point's, this value has the smallest total."""

    from_runs: int
    value: Value


class SweepReport(msgspec.Struct, frozen=True):
    name: str
    """What was swept: an option, or an axis."""
    kind: Literal["option", "batch", "axis"]
    subject: str
    backend: str
    points: tuple[SweepPoint, ...]
    best_by_runs: tuple[Stretch, ...] = ()
    """For options only; see `best_by_runs`."""
    runs: int | None = None
    """How many runs there will be, where the user said so."""
    rounds: int = 0
    seconds: float = 0.0
    measured_while: str = ""
    data: str = ""
    warnings: tuple[str, ...] = ()
    machine: dict[str, str] = {}
    """The device in words."""
    duty: Literal["sweep"] = "sweep"
    schema: int = SCHEMA

    @property
    def totals(self) -> tuple[int, ...]:
        return TOTALS if self.runs is None else (self.runs,)


def total_ms(create_ms: float, first_run_ms: float, p50_ms: float, runs: int) -> float:
    """Creation, the first run, which takes longer, and the others."""
    return create_ms + first_run_ms + (runs - 1) * p50_ms


def best_by_runs(points: Sequence[SweepPoint]) -> tuple[Stretch, ...]:
    """Which value is best for how many runs, in order.

    A value that takes longer to create must be 2 % faster to take over at all: less is noise.
    """
    lines = [
        (p.value, total_ms(p.create_ms, p.first_run_ms, p.p50_ms, 1), p.p50_ms)
        for p in points
        if p.create_ms is not None and p.first_run_ms is not None and p.p50_ms is not None
    ]
    if not lines:
        return ()
    value, begin_ms, run_ms = min(lines, key=lambda line: line[1])
    found = [Stretch(1, value)]
    while True:
        # Where each faster one has made up for its longer creation.
        after = [
            (1 + max(0.0, theirs - begin_ms) / (run_ms - other_run), other_run, other, theirs)
            for other, theirs, other_run in lines
            if other_run * _SAME < run_ms
        ]
        if not after:
            return tuple(found)
        runs, run_ms, value, begin_ms = min(after)
        found.append(Stretch(int(runs) + 1, value))
