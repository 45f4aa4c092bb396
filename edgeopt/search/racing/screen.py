"""The screen: does a candidate load, does it run, is it inside the accuracy budget?"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from edgeopt import units
from edgeopt.data.judging.goals import Goal
from edgeopt.data.judging.metric import Judged
from edgeopt.errors import TrialError
from edgeopt.measure.contender import Contender
from edgeopt.measure.messages import Loaded, Memory
from edgeopt.measure.rounds import speedup
from edgeopt.measure.stats import Interval
from edgeopt.search.outcome import Candidate, Status
from edgeopt.search.racing.ground import Ground
from edgeopt.search.racing.standard import Answers, Standard


class Pace(NamedTuple):
    """Of a candidate, as far as it was measured."""

    speedup: Interval | None = None
    latency_ms: float | None = None
    throughput_per_s: float | None = None


NOT_MEASURED = Pace()


class Lead(NamedTuple):
    """That of the best of those that a candidate ran with last."""

    best: Candidate
    share: float
    """Its own speed, of that of the best."""


@dataclass(slots=True)
class Entry:
    """A candidate in the race: alive while it has a contender, afterwards a status with a reason."""

    candidate: Candidate
    contender: Contender | None = None
    status: Status = "lost"
    reason: str = ""
    accuracy_db: float | None = None
    accuracy_low_db: float | None = None
    pace: Pace = NOT_MEASURED
    lead: Lead | None = None
    of_best: float | None = None
    """The share of the lead, where it is why it is out."""
    proof: Interval | None = None
    """From a written bundle, with what it says in the next one."""
    proof_verdict: str = ""
    loaded: Loaded | None = None
    memory: Memory | None = None
    size_bytes: int | None = None
    """Of all files of its model."""

    @property
    def speedup(self) -> Interval | None:
        return self.pace.speedup

    @property
    def latency_ms(self) -> float | None:
        return self.pace.latency_ms

    def measured(self, baseline: Contender) -> None:
        """Keeps what the latest rounds say of it."""
        if self.contender is not None and self.contender.slices_ms:
            middle_ms, by_sample = float(np.median(self.contender.slices_ms)), self.contender.by_sample
            self.pace = Pace(
                speedup(baseline, self.contender),
                self.contender.run_ms if by_sample else middle_ms,
                1e3 / middle_ms if by_sample else None,
            )

    def fall_behind(self, best: Candidate, share: float) -> None:
        """Out of the race, because another one is that much faster in the rounds that both ran."""
        self.lead = Lead(best, share)
        self.leave("lost", units.behind(share, best.name))
        self.of_best = share

    def leave(self, status: Status, reason: str) -> None:
        """Out of the race, for this reason."""
        self.status, self.reason, self.of_best = status, reason, None
        if self.contender is not None:
            self.memory = self.contender.memory
            self.contender.close()
            self.contender = None


def screen(ground: Ground, standard: Standard, candidate: Candidate, path: Path, timeout_s: float) -> Entry:
    """Loads a candidate, compares its outputs with the baseline's, and leaves it loaded when it is good enough."""
    entry, backend, options, calls = Entry(candidate), candidate.backend, candidate.options, candidate.calls
    try:
        contender = ground.enter(candidate.name, backend, path, options, calls=calls, timeout_s=timeout_s)
        entry.contender, entry.loaded = contender, contender.loaded
        judge(standard, entry, ground.outputs(contender, standard.split.check))
    except TrialError as error:
        entry.leave("failed", error.message)
    except BaseException:
        entry.leave("failed", "interrupted")
        raise
    return entry


def judge(standard: Standard, entry: Entry, outputs: Answers) -> None:
    """Holds the outputs against the accuracy budget; below it, the candidate is out."""
    goal = standard.goal
    judged = standard.judge(standard.split.check, outputs, standard.reference)
    entry.accuracy_db, entry.accuracy_low_db = judged.snr_db, judged.low_db
    if judged.problem:
        entry.leave("failed", judged.problem)
    elif not goal.met(judged):
        entry.leave("below the floor", f"{_reached(goal, judged, len(outputs))}; the floor is {_floor(goal)}")


def _reached(goal: Goal, judged: Judged, count: int) -> str:
    where = f"on {count} samples not used for calibration"
    if goal.is_ratio:
        weakest = f": {judged.weakest.where}" if judged.weakest is not None else ""
        tail = goal.tail_words(judged.tail)
        return f"{judged.value:.1f} dB {where} (perhaps {judged.low:.1f} on others){weakest}{tail}"
    beside = f", {judged.snr_db:.1f} dB" if judged.snr_db is not None else ""
    return f"{goal.title} {goal.shown(judged.value)}{beside} {where}"


def _floor(goal: Goal) -> str:
    return f"{goal.floor:g} dB" if goal.is_ratio else str(goal)
