"""The board of a race: the search's events in, rows and the best so far out."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from edgeopt import events
from edgeopt_gui.pages.optimize.phases import place_of
from edgeopt_gui.pages.optimize.trade import trade_of

if TYPE_CHECKING:
    from edgeopt_gui.pages.optimize.result import Report, Result

Status = Literal[
    "racing",
    "winner",
    "picked",
    "baseline",
    "kept",
    "lost",
    "below the floor",
    "over a limit",
    "failed",
    "not tried",
    "not made",
]
_SAME = 1.02
_MARKS = {
    "racing": "▸ racing",
    "winner": "★ winner",
    "picked": "★ picked",
    "kept": "★ your model, kept",
    "baseline": "your model",
    "lost": "slower",
    "below the floor": "▼ below the floor",
    "over a limit": "▲ over a limit",
    "failed": "✕ failed",
    "not tried": "not tried",
    "not made": "not made",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate, or a variant of which no candidate could be made."""

    name: str
    status: Status
    reason: str = ""
    latency_ms: float | None = None
    speedup: float | None = None
    """Against the baseline."""
    low: float | None = None
    high: float | None = None
    accuracy_db: float | None = None
    trade: str = ""
    """What is given up and won if it is delivered instead of the winner; "" where it cannot be."""
    front: bool = False
    """No other one beats it in all that counts."""
    of_best: float | None = None
    """Its speed as a share of that of the best, where it is out for that."""

    @property
    def outcome(self) -> str:
        """A mark, a word, and the reason where there is one."""
        word = "out" if self.status == "lost" and self.of_best is None else _MARKS[self.status]
        return f"{word}: {self.reason}" if self.reason else word

    @property
    def short(self) -> str:
        """The same for a narrow column; what was measured stands in the others."""
        if self.status == "lost" and self.of_best is not None:
            return f"{100 * self.of_best:.0f} % of the best"
        if self.status in {"below the floor", "over a limit"}:
            return _MARKS[self.status]
        return self.outcome.partition(";")[0]

    @property
    def leads(self) -> bool:
        return self.status in {"winner", "picked", "kept"}

    @property
    def out(self) -> bool:
        return self.status in {"lost", "below the floor", "over a limit", "failed", "not tried", "not made"}


class Board:
    """Everything that one search told so far."""

    def __init__(self) -> None:
        self.progress: events.Progress | None = None
        self.place = -1
        """Of the furthest phase reached, in `PHASES`."""
        self.warnings: list[str] = []
        self.rows: dict[str, Row] = {}

    def hear(self, event: events.Event) -> Row | None:
        """Takes one event in; the row that it changed, if it did."""
        if isinstance(event, events.Progress):
            self.progress = event
            place = place_of(event.phase)
            self.place = self.place if place is None else max(self.place, place)
        elif isinstance(event, events.Log) and event.level == "warning":
            self.warnings.append(event.message)
        elif isinstance(event, events.Standing):
            row = _row_of(event, self.rows.get(event.candidate))
            self.rows[row.name] = row
            return row
        return None

    def finish(self, result: "Result") -> None:
        """Puts what was found in the place of what was told on the way."""
        rows = [_reported(report, result) for report in result.candidates]
        rows += [Row(v.name, "not made", v.failure) for v in result.variants if v.failure]
        self.rows = {row.name: row for row in rows}
        self.warnings = list(result.warnings)

    @property
    def best(self) -> Row | None:
        """The fastest still in the race that is faster than the baseline."""
        alive = [row for row in self.rows.values() if row.speedup and not row.out]
        best = max(alive, key=lambda row: row.speedup or 0.0, default=None)
        return best if best is not None and best.speedup is not None and best.speedup > _SAME else None


def axis(rows: Iterable[Row]) -> tuple[float, float]:
    """The ends of a common axis of speeds, around 1x; logarithmic, for 2x and 0.5x are equally far from it.

    By the middles: one wild interval must not squeeze all others.
    """
    middles = [row.speedup for row in rows if row.speedup]
    low, high = min([0.8, *middles]), max([1.25, *middles])
    room = (high / low) ** 0.15
    return low / room, high * room


def place_on(span: tuple[float, float], value: float) -> float:
    """Where a speed stands on the axis, 0 to 1; what lies outside stands at its end."""
    low, high = (math.log(end) for end in span)
    if value <= 0:
        return 0.0
    return min(1.0, max(0.0, (math.log(value) - low) / (high - low)))


def _row_of(standing: events.Standing, before: Row | None) -> Row:
    """What a later event leaves out stays as it was, but for an interval: it belongs to the speed beside it."""
    row = before or Row(standing.candidate, "racing")
    measured = standing.speedup is not None
    return replace(
        row,
        status=standing.status,
        reason=standing.reason,
        latency_ms=_known(standing.latency_ms, row.latency_ms),
        speedup=_known(standing.speedup, row.speedup),
        low=standing.speedup_low if measured else row.low,
        high=standing.speedup_high if measured else row.high,
        accuracy_db=_known(standing.accuracy_db, row.accuracy_db),
        of_best=standing.of_best,
    )


def _reported(report: "Report", result: "Result") -> Row:
    status: Status = report.status
    if report.candidate == result.baseline:
        status = "kept" if report.candidate == result.winner else "baseline"
    elif report.candidate == result.winner:
        status = "picked" if result.verdict == "picked" else "winner"
    speedup = report.speedup
    return Row(
        report.candidate.name,
        status,
        "" if status in {"baseline", "kept", "picked", "winner"} else report.reason,
        report.latency_ms,
        speedup.median if speedup else None,
        speedup.low if speedup else None,
        speedup.high if speedup else None,
        report.accuracy_db,
        trade_of(report, result),
        report.candidate.name in result.front,
        report.of_best,
    )


def _known(new: float | None, old: float | None) -> float | None:
    return old if new is None else new
