"""Early end of a search: the best candidate so far gets a short proof and is delivered."""

import math
import threading
import time
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from edgeopt.errors import StoppedError
from edgeopt.events import Emit, Event, Log, Progress
from edgeopt.measure.contender import Contender
from edgeopt.measure.legs import FEWEST, proof_seconds, starting_seconds
from edgeopt.measure.rounds import slice_ms


@dataclass(frozen=True, slots=True)
class SearchClock:
    begin_s: float
    """Start of the search on the monotonic clock."""
    limit_s: float
    proof_s: float = 0.0
    """Time reserved for the proof, at the end."""

    @property
    def spent_s(self) -> float:
        return time.monotonic() - self.begin_s

    @property
    def ends_s(self) -> float:
        """Returns the moment at which the time limit is used up."""
        return self.begin_s + self.limit_s

    def until(self, share: float) -> float:
        """Returns the moment at which a share of the time before the proof is used up."""
        return self.begin_s + share * (self.limit_s - self.proof_s)


STOPPING: Final = "stopping"
LAST_LOOK_S = 2.0
"""Seconds that candidates race if none has raced when the search is asked to end."""
PROVED_WHEN_STOPPED = 2
"""Number of candidates that may still be proved."""
# Reserved time, as a number of proofs: a loaded machine starts processes more slowly.
_PROOFS = 1.15
_MAX_FOR_PROOFS = 0.65
# Of a proof that has begun, on a machine that may become busier still.
_BUSIER = 2.5
# Runs whose outputs are compared before the legs: 16 samples by bundle and reference.
_ANSWERED = 32


class Stop(threading.Event):
    """Event that ends the search; unlike any other `threading.Event`, it also says when that is worth it."""

    def __init__(self) -> None:
        super().__init__()
        self.ready = False
        """Whether a candidate besides the baseline exists, so that there may be something to deliver."""

    def interrupt(self) -> bool:
        """Handles the first Ctrl-C; returns whether the search ends by itself, with something to show."""
        if self.ready:
            self.set()
        return self.ready


def register_candidate(stop: threading.Event) -> None:
    """Marks that there may be something to deliver from here on."""
    if isinstance(stop, Stop):
        stop.ready = True


def nothing_proved_error(phase: str, *, kept: bool) -> StoppedError:
    """Returns the error for a stop before anything was proved; `kept`: the variants are in the cache."""
    return StoppedError(
        f"Stopped while {phase}: nothing is proved faster yet, nothing was written.",
        "Variants are in the cache: run the same command to continue." if kept else "",
    )


def clock_for(begin_s: float, limit_s: float, baseline: Contender, generation_s: float = 0.0) -> SearchClock:
    """Returns the clock of a search; it reserves time for a proof and its bundle, up to a share of the limit.

    `generation_s`: the time that the proof of a decoder takes before its speed is measured.
    """
    answering_s = starting_seconds(baseline) + _ANSWERED * baseline.loaded.first_run_ms / 1e3 + generation_s
    proof_s = _PROOFS * proof_seconds(baseline) + answering_s + keeping_seconds(baseline)
    return SearchClock(begin_s, limit_s, min(_MAX_FOR_PROOFS * limit_s, proof_s))


@dataclass(slots=True)
class StopControl:
    """Stop state of a search: whether it is asked to end, where it was then, and how long the rest takes."""

    stop: threading.Event
    clock: SearchClock
    baseline: Contender
    emit: Emit
    kept: bool = False
    """Whether the variants are in the cache."""
    longest_s: float = 0.0
    """Longest time that the search may take on a busy machine, in seconds; 0: no longer than its limit."""
    generation_s: float = 0.0
    """Time that steps and generated tokens in the proof of a decoder take, in seconds."""
    cut_short: str = field(init=False, default="")
    """Time and phase of an early stop, as a sentence without its full stop."""
    unproved: int = field(init=False, default=0)
    """Number of promising candidates that there was no time to prove."""
    _proof_begin_s: float | None = field(init=False, default=None)
    """Time at which the latest proof began, on the monotonic clock."""
    _ends_at: float | None = field(init=False, default=None)
    """Moment by which a candidate is to be proved."""

    def extend(self, late_s: float, why: str) -> None:
        """Extends the search by the time that it lost so far, up to the longest time allowed."""
        if self.is_stopping:
            return
        limit_s = min(self.clock.limit_s + late_s, self.longest_s)
        if limit_s > self.clock.limit_s:
            more_s = math.ceil(limit_s - self.clock.limit_s)
            self.clock = replace(self.clock, limit_s=limit_s)
            self.emit(Log("info", f"{why}: the search takes about {more_s} s longer."))

    def extend_for_proof(self, proof_s: float) -> None:
        """Extends the search for a proof that takes this long at least, if the search may become longer."""
        self.extend(
            time.monotonic() + _BUSIER * proof_s - self.proofs_end_s, "Processes start slowly on this busy machine"
        )

    def extend_for_another_proof(self) -> None:
        """Extends the search for another proof, if the best candidate was not proved."""
        if not self.has_time_to_prove:
            late_s = time.monotonic() + self._proof_s - self.proofs_end_s
            self.extend(late_s + 1.0, "The best candidate was not proved, and another one may be")

    @property
    def is_stopping(self) -> bool:
        return self.stop.is_set()

    @property
    def left_s(self) -> float:
        """Estimates the time until the search ends; the proof of a decoder may exceed the limit."""
        now_s, ends_s = time.monotonic(), self.clock.ends_s if self._ends_at is None else self._ends_at
        if self.generation_s:
            begin_s = now_s if self._proof_begin_s is None else self._proof_begin_s
            ends_s = max(ends_s, begin_s + self._proof_s)
        return max(0.0, ends_s - now_s)

    def begin_proof(self) -> None:
        """Records that the proof of a candidate begins."""
        self._proof_begin_s = time.monotonic()

    def record_stop(self, phase: str, to_race: int = 0) -> None:
        """Records, once, that the search was stopped in this phase, and announces its end.

        `to_race`: the number of candidates that have not raced yet.
        """
        if not self.cut_short:
            spent_s, limit_s = self.clock.spent_s, self.clock.limit_s
            self.cut_short = f"The search was stopped after {spent_s:.0f} s of {limit_s:.0f} s, while {phase}"
        self.announce(to_race)

    def announce(self, to_race: int = 0) -> None:
        """Reports, once, that the search is ending and how long that takes."""
        if self._ends_at is not None:
            return
        left_s = _racing_s(self.baseline, to_race) + self._proof_s
        self._ends_at = time.monotonic() + left_s
        self.emit(Progress(STOPPING, "proving the best so far"))
        remainder = f"about {math.ceil(left_s)} s; press Ctrl-C again to end at once."
        self.emit(Log("info", f"Stopping: proving the best so far, {remainder}"))

    def legs(self, place: int, usual: int) -> int:
        """Returns the number of legs that prove the candidate at this place; 0: there is no time for it."""
        if not self.is_stopping:
            return usual
        self.record_stop("proving")
        late = place > 0 and self._ends_at is not None and time.monotonic() >= self._ends_at
        return min(usual, FEWEST) if place < PROVED_WHEN_STOPPED and not late else 0

    @property
    def proofs_end_s(self) -> float:
        """Returns the moment at which proofs must be over, so that the bundle is written within the time limit."""
        return self.clock.ends_s - keeping_seconds(self.baseline)

    @property
    def has_time_to_prove(self) -> bool:
        """Whether there is time for another proof."""
        return time.monotonic() + self._proof_s < self.proofs_end_s

    @property
    def generation_left_s(self) -> float:
        """Returns the time for steps and generated tokens that leaves enough for the rest of the proof."""
        ends_s = self.proofs_end_s if self._ends_at is None else self._ends_at
        return max(0.0, ends_s - time.monotonic() - proof_seconds(self.baseline))

    @property
    def _proof_s(self) -> float:
        return proof_seconds(self.baseline) + self.generation_s


@dataclass(slots=True)
class ClockedEmit:
    """Emitter of a search's events, each progress with the time that is left of the whole search."""

    emit: Emit
    control: StopControl | None = None
    """Stop control, whose clock all stages share; None until the time limit is known."""
    _last: Progress | None = field(init=False, default=None)
    _limit_s: float = field(init=False, default=0.0)

    def __call__(self, event: Event) -> None:
        if isinstance(event, Progress):
            self._last = event
            self._emit_last()
            return
        self.emit(event)
        # A message that the search takes longer is followed by its new end.
        if self.control is not None and self._limit_s != self.control.clock.limit_s:
            self._emit_last()

    def _emit_last(self) -> None:
        event = self._last
        if event is not None and self.control is not None:
            self._limit_s = self.control.clock.limit_s
            event = msgspec.structs.replace(event, time_left_s=self.control.left_s)
        if event is not None:
            self.emit(event)


def _racing_s(baseline: Contender, to_race: int) -> float:
    """Estimates the time of the remaining races from the speed of the source, which is seldom the faster."""
    run_ms = baseline.slices_ms[-1] if baseline.slices_ms else baseline.loaded.first_run_ms
    slice_s = max(slice_ms(run_ms), run_ms) / 1e3
    return max(LAST_LOOK_S, 2 * (to_race + 1) * slice_s) if to_race else 0.0


def keeping_seconds(baseline: Contender) -> float:
    """Estimates the time to deliver the source if nothing is proved, or to write what is proved."""
    return starting_seconds(baseline) + 2 * (baseline.loaded.load_ms + baseline.loaded.first_run_ms) / 1e3
