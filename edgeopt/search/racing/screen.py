"""The screen: does a candidate load, does it run, is it inside the accuracy budget?"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.bench.contender import Contender, enter, save_outputs
from edgeopt.bench.host import TrialHost
from edgeopt.bench.messages import Load, Loaded, Memory
from edgeopt.bench.rounds import speedup
from edgeopt.bench.stats import Interval
from edgeopt.bench.trial import read_outputs
from edgeopt.data import open_samples
from edgeopt.data.regimes.levels import Levels
from edgeopt.data.split import Split
from edgeopt.errors import TrialError
from edgeopt.graph.levels import Level
from edgeopt.judging.goals import Goal
from edgeopt.judging.judged import Judged
from edgeopt.judging.metric import Labels
from edgeopt.search.outcome import Candidate, Status


@dataclass(slots=True)
class Course:
    """What all candidates of a search share."""

    host: TrialHost
    folder: Path
    samples_path: Path
    split: Split
    goal: Goal
    reference: list[dict[str, Array]]
    """The baseline's outputs on the check samples."""
    labels: Labels | None = None
    """Of all samples."""
    levels: Levels | None = None
    """Of the samples at `samples_path`, from the first use on."""
    by_sample: bool = False
    """The race is for throughput."""

    def levels_of(self, first: int, count: int) -> list[Level]:
        """How loud the inputs of some of the samples are."""
        if self.levels is None:
            self.levels = Levels(open_samples(self.samples_path))
        return self.levels.of(range(first, first + count))

    def labels_of(self, first: int, count: int) -> Labels | None:
        return None if self.labels is None else self.labels[first : first + count]


@dataclass(slots=True)
class Entry:
    """A candidate in the race: alive while it has a contender, afterwards a status with a reason."""

    candidate: Candidate
    path: Path
    contender: Contender | None = None
    status: Status = "lost"
    reason: str = ""
    accuracy_db: float | None = None
    accuracy_low_db: float | None = None
    speedup: Interval | None = None
    latency_ms: float | None = None
    loaded: Loaded | None = None
    led_by: Candidate | None = None
    """The best of those that it ran with last, and its speed as a share of that one's."""
    share: float | None = None
    of_best: float | None = None
    """That share, where it is why it is out."""
    size_bytes: int | None = None
    """Of all files of its model."""
    memory: Memory | None = None
    throughput_per_s: float | None = None

    def measured(self, baseline: Contender) -> None:
        """Keeps what the latest rounds say of it."""
        if self.contender is not None and self.contender.slices_ms:
            self.speedup = speedup(baseline, self.contender)
            middle_ms = float(np.median(self.contender.slices_ms))
            by_sample = self.contender.by_sample
            self.latency_ms = self.contender.run_ms if by_sample else middle_ms
            self.throughput_per_s = 1e3 / middle_ms if by_sample else None

    def behind(self, best: Candidate, share: float) -> str:
        """Keeps how far it is behind the best in the rounds that both ran, and says it."""
        self.led_by, self.share = best, share
        return f"{share:.2f} of the speed of {best.name}"

    def fall_behind(self, best: Candidate, share: float) -> None:
        """Out of the race, because another one is that much faster."""
        self.leave("lost", self.behind(best, share))
        self.of_best = share

    def leave(self, status: Status, reason: str) -> None:
        """Out of the race, for this reason."""
        self.status, self.reason, self.of_best = status, reason, None
        if self.contender is not None:
            self.memory = self.contender.memory
            self.contender.close()
            self.contender = None


def screen(course: Course, candidate: Candidate, path: Path, timeout_s: float) -> Entry:
    """Loads a candidate, compares its outputs with the baseline's, and leaves it loaded when it is good enough."""
    entry = Entry(candidate, path)
    samples, calls = course.host.put(course.samples_path), candidate.calls
    load = Load(candidate.backend, course.host.put(path), candidate.options, samples, batch=calls.batch)
    try:
        entry.contender = enter(course.host, candidate.name, load, timeout_s, calls.callers)
        entry.contender.by_sample = course.by_sample
        entry.loaded = entry.contender.loaded
        judge(
            course, entry, outputs_of(course, entry.contender, course.split.check_first, course.split.check_count)
        )
    except TrialError as error:
        entry.leave("failed", error.message)
    except BaseException:
        entry.leave("failed", "interrupted")
        raise
    return entry


def outputs_of(
    course: Course, contender: Contender, first: int, count: int, batch: int | None = None
) -> list[dict[str, Array]]:
    """A contender's outputs on some of the samples, one dict a sample; in its own batches, or others."""
    file = course.folder / "outputs.npz"
    save_outputs(
        contender,
        first,
        count,
        str(file),
        contender.patience_s(count),
        contender.batch if batch is None else batch,
    )
    return read_outputs(file)


def judge(course: Course, entry: Entry, outputs: list[dict[str, Array]]) -> None:
    """Holds the outputs against the accuracy budget; below it, the candidate is out."""
    split, goal = course.split, course.goal
    first, count = split.check_first, split.check_count
    judged = goal.judge(outputs, course.reference, course.labels_of(first, count), course.levels_of(first, count))
    entry.accuracy_db, entry.accuracy_low_db = judged.snr_db, judged.low_db
    if judged.problem:
        entry.leave("failed", judged.problem)
    elif not goal.met(judged):
        entry.leave("below the floor", f"{_reached(goal, judged, len(outputs))}; the floor is {_floor(goal)}")


def _reached(goal: Goal, judged: Judged, count: int) -> str:
    where = f"on {count} samples that calibration never saw"
    if goal.is_ratio:
        weakest = f": {judged.weakest.where}" if judged.weakest is not None else ""
        return f"{judged.value:.1f} dB {where} (on others perhaps {judged.low:.1f}){weakest}"
    beside = f", {judged.snr_db:.1f} dB" if judged.snr_db is not None else ""
    return f"{goal.title} {goal.shown(judged.value)}{beside} {where}"


def _floor(goal: Goal) -> str:
    return f"{goal.floor:g} dB" if goal.is_ratio else str(goal)
