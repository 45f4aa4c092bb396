"""The board of a race: turns the events of a search into rows and the best candidate so far."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

from edgeopt import events, units
from edgeopt_gui.pages.optimize.phases import place_of
from edgeopt_gui.pages.optimize.trade import trade_of
from edgeopt_gui.widgets.speed_axis import span_of

if TYPE_CHECKING:
    from edgeopt.measure.messages import Memory
    from edgeopt.pipeline.outcome import CandidateReport, Outcome

Status = Literal[
    "racing",
    "winner",
    "picked",
    "baseline",
    "kept",
    "lost",
    "below the floor",
    "unproven",
    "over a limit",
    "failed",
    "not tried",
    "cancelled",
    "not made",
]
_OUT = frozenset(
    {"lost", "below the floor", "unproven", "over a limit", "failed", "not tried", "cancelled", "not made"}
)
_SAME = 1.02
_SOURCE = "source · "
Known = TypeVar("Known", int, float)
_MARKS = {
    "racing": "▸ racing",
    "winner": "★ winner",
    "picked": "★ picked",
    "kept": "★ your model, kept",
    "baseline": "your model",
    "lost": "slower",
    "below the floor": "▼ below the floor",
    "unproven": "◇ accuracy not shown",
    "over a limit": "▲ over a limit",
    "failed": "✕ failed",
    "not tried": "not tried",
    "cancelled": "cancelled",
    "not made": "not made",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate, or a variant that gave no candidate."""

    name: str
    status: Status
    reason: str = ""
    latency_ms: float | None = None
    speedup: float | None = None
    """Speed-up over the baseline; `low` and `high` are the ends of its interval."""
    low: float | None = None
    high: float | None = None
    accuracy_db: float | None = None
    trade: str = ""
    """Losses and gains if the candidate is delivered instead of the winner; "" if it cannot be."""
    front: bool = False
    """Whether no other candidate is better in every respect."""
    of_best: float | None = None
    """Speed relative to the best candidate, 0 to 1, if it was rejected for that; None otherwise."""
    against: str = "the best"
    """Name of that best candidate."""
    proved: bool = False
    """Whether the speed is that of the written bundle, in fresh processes."""
    memory: "Memory | None" = None
    size_bytes: int | None = None
    leading: bool = False
    """Whether the candidate is the fastest of those still racing."""
    tokens: events.TokenFigures | None = None
    """Accuracy of a decoder that is judged by its tokens."""
    proof_verdict: str = ""
    """Verdict of the candidate's proof; "" if it had none."""
    part: str = ""
    """`encoder` or `decoder` of a speech model, with which the name begins; "" for other models."""

    @property
    def candidate(self) -> str:
        """The name without the part of the model."""
        return self.name.removeprefix(f"{self.part}: ")

    @property
    def interval(self) -> tuple[float | None, float | None, float | None]:
        """Low end, middle and high end."""
        return self.low, self.speedup, self.high

    @property
    def outcome(self) -> str:
        """A mark, a word, and the reason if there is one."""
        if self.of_best is not None and self.status == "lost" and self.reason:
            return self.reason
        word = "out" if self.status == "lost" and self.of_best is None else self._mark
        return f"{word}: {self.reason}" if self.reason else word

    @property
    def short(self) -> str:
        """The outcome for a narrow column, without the measured values, which other columns have."""
        if self.status == "lost" and self.of_best is not None:
            return units.behind(self.of_best, self.against)
        if self.status == "lost" and self.proof_verdict:
            return f"proof: {self.proof_verdict}"
        if self.status == "kept":
            return "★ kept"
        if self.status in {"below the floor", "unproven", "over a limit"} or self.leads:
            return _MARKS[self.status]
        return self.outcome.partition(";")[0]

    @property
    def _mark(self) -> str:
        if self.status != "racing":
            return _MARKS[self.status]
        if self.leading:
            return "▸ leading, not proved"
        return "▸ screening" if self.latency_ms is None and self.speedup is None else "▸ racing"

    @property
    def leads(self) -> bool:
        return self.status in {"winner", "picked", "kept"}

    @property
    def out(self) -> bool:
        return self.status in _OUT


class Board:
    """The events of one search so far, as rows and figures."""

    def __init__(self) -> None:
        self.progress: events.Progress | None = None
        self.place = -1
        """Index in `PHASES` of the furthest phase reached; -1 before the first."""
        self.warnings: list[str] = []
        self.rows: dict[str, Row] = {}
        self._baseline = ""
        self._leader = ""
        self._part = ""
        """Part of a speech model whose candidates race now."""

    def apply(self, event: events.Event) -> tuple[Row, ...]:
        """Applies an event; returns the rows that changed, the row of the event first."""
        if isinstance(event, events.Progress):
            if (
                self.progress is not None and self.progress.subject != event.subject
            ):  # the decoder after its encoder
                self.place = -1
            self.progress = event
            place = place_of(event.phase)
            self.place = self.place if place is None else max(self.place, place)
        elif isinstance(event, events.Log) and event.level == "warning":
            self.warnings.append(event.message)
        elif isinstance(event, events.Standing):
            part = event.subject or ""
            name = _label(part, event.candidate)
            if self._part != part:  # the decoder after its encoder
                self._part = part
                self._baseline = ""
            # A search begins with the candidate that it compares with.
            is_first = not any(row.part == part for row in self.rows.values())
            if is_first and event.candidate.startswith(_SOURCE):
                self._baseline = name
            row = _row_of(event, self.rows.get(name), part)
            self.rows[name] = _yardstick(row) if name == self._baseline else row
            return tuple(self.rows[each] for each in dict.fromkeys((name, *self._lead())))
        return ()

    def _lead(self) -> list[str]:
        """Marks the fastest of those that race; the names of the rows that are marked otherwise now."""
        best = self.best
        leader = best.name if best is not None else ""
        changed = [name for name in {self._leader, leader} if name in self.rows]
        changed = [name for name in changed if self.rows[name].leading != (name == leader)]
        for name in changed:
            self.rows[name] = replace(self.rows[name], leading=name == leader)
        self._leader = leader
        return changed

    def cancel(self) -> None:
        """Marks the candidates that were racing as cancelled."""
        for name, row in self.rows.items():
            if row.status == "racing":
                raced = row.latency_ms is not None or row.speedup is not None
                reason = "while it raced" if raced else "after screening"
                self.rows[name] = replace(row, status="cancelled", reason=reason, leading=False)

    def finish(self, result: "Outcome") -> None:
        """Replaces the rows of the progress by those of the result."""
        encoder = result.encoder
        if encoder is None:
            self.rows, self.warnings = _rows_of(result, ""), list(result.warnings)
            return
        self.rows = _rows_of(result, "decoder") | _rows_of(encoder, "encoder")
        self.warnings = [
            *(f"Decoder: {each}" for each in result.warnings),
            *(f"Encoder: {each}" for each in encoder.warnings),
        ]

    @property
    def of_tokens(self) -> bool:
        """Whether candidates are judged by their tokens, as those of a decoder."""
        return any(row.tokens for row in self.rows.values())

    @property
    def best(self) -> Row | None:
        """The fastest candidate still racing that is faster than the baseline; None if there is none."""
        alive = [row for row in self.rows.values() if row.speedup and not row.out and row.part == self._part]
        best = max(alive, key=lambda row: row.speedup or 0.0, default=None)
        return best if best is not None and best.speedup is not None and best.speedup > _SAME else None


def axis(rows: Iterable[Row]) -> tuple[float, float]:
    """Returns the ends of a common axis of speeds, on which the bars of nearly all intervals are whole."""
    return span_of(row.interval for row in rows)


def _label(part: str, candidate: str) -> str:
    return f"{part}: {candidate}" if part else candidate


def _rows_of(result: "Outcome", part: str) -> dict[str, Row]:
    """Returns the rows of an outcome by name; those of an encoder cannot be delivered alone."""
    rows = [_reported(report, result) for report in result.candidates]
    rows += [Row(v.name, "not made", v.failure) for v in result.variants if v.failure]
    named = (
        replace(row, name=_label(part, row.name), part=part, trade="" if part == "encoder" else row.trade)
        for row in rows
    )
    return {row.name: row for row in named}


def _row_of(standing: events.Standing, before: Row | None, part: str) -> Row:
    """Returns the row with the values of an event; unknown values stay, but not the interval of an old speed."""
    row = before or Row(_label(part, standing.candidate), "racing", part=part)
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
        tokens=standing.tokens or row.tokens,
    )


def _yardstick(row: Row) -> Row:
    """Returns the row of the reference, with a speed-up of exactly 1 whatever its two processes measured."""
    return replace(row, speedup=1.0, low=None, high=None)


def _reported(report: "CandidateReport", result: "Outcome") -> Row:
    from edgeopt.views.outcome import delivered_name, why_it_won

    status: Status = report.status
    if report.candidate == result.baseline:
        status = "kept" if report.candidate == result.winner else "baseline"
    elif report.candidate == result.winner:
        status = "picked" if result.verdict == "picked" else "winner"
    reason = "" if status in {"baseline", "kept", "picked", "winner"} else report.reason
    speedup = report.speedup and report.speedup.stated
    row = Row(
        report.candidate.name,
        status,
        why_it_won(result) if status == "winner" else reason,
        report.latency_ms,
        speedup.median if speedup else None,
        speedup.low if speedup else None,
        speedup.high if speedup else None,
        report.accuracy_db,
        trade_of(report, result),
        report.candidate.name in result.front,
        report.of_best,
        delivered_name(result).removeprefix("the "),
        report.proved,
        report.memory,
        report.size_bytes,
        tokens=report.tokens,
        proof_verdict=report.proof_verdict,
    )
    if status in {"baseline", "kept"}:
        return replace(
            _yardstick(row),
            latency_ms=result.proof.baseline_ms,
            memory=result.proof.baseline_memory or row.memory,
        )
    return row


def _known(new: Known | None, old: Known | None) -> Known | None:
    return old if new is None else new
