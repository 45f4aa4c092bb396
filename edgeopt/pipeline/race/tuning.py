"""Tuning of runtime options: interleaved contests against the best so far, at the most promising points."""

import dataclasses
import math
import time
from collections.abc import Sequence

import numpy as np

from edgeopt import units
from edgeopt.events import Log, Progress
from edgeopt.measure.contender import Contender
from edgeopt.measure.rounds import run_slices, slice_ms
from edgeopt.measure.schedules import FINAL, OPENING, OPTIONS
from edgeopt.pipeline import stopping
from edgeopt.pipeline.context import SearchResources
from edgeopt.pipeline.objectives import Objective
from edgeopt.pipeline.outcome import Candidate
from edgeopt.pipeline.plans.gathering import VariantBuilder
from edgeopt.pipeline.plans.space import (
    Choices,
    Effects,
    OptionGain,
    OptionPoint,
    best_point,
    candidates_of,
    choices_on,
    point_of,
    subject_of,
)
from edgeopt.pipeline.race import race
from edgeopt.pipeline.race.loads import maximize_throughput
from edgeopt.pipeline.race.race import BUCKETED, fast_enough, minimize_objective
from edgeopt.pipeline.screen import CandidatePool, PoolEntry, RacePace, final, racing

# Subjects (a variant on a backend) whose options are tuned; the others are too far behind to catch up.
_SUBJECTS = 2
# Least expected improvement, as a logarithm, for which a point is worth its time.
_WORTH_TRYING = 0.01
# Errors of ratios: of candidates in the race, of those that left early, and the least of contests here.
_RACED, _LEFT, _MIN_SPREAD = 0.02, 0.05, 0.005
# A failed option is assumed to fail in other combinations too.
_FAILED = math.log(2.0)
# Time in seconds to start and screen one more candidate, in addition to loading and its rounds.
_ENTERING_S = 1.0


@dataclasses.dataclass(slots=True)
class _Tuning:
    pool: CandidatePool
    alive: list[PoolEntry]
    until: float
    effects: Effects = dataclasses.field(default_factory=Effects)
    tried: list[OptionPoint] = dataclasses.field(default_factory=list)
    """Points that are not tried again, even if they did not load."""
    spaces: dict[str, Choices] = dataclasses.field(default_factory=dict)
    cost_s: float = 0.0
    """Time of the most expensive point, in seconds."""

    @property
    def races(self) -> SearchResources:
        return self.pool.resources

    def choices(self, backend: str) -> Choices:
        if backend not in self.spaces:
            self.spaces[backend] = choices_on(backend, self.pool.starts.space, self.pool.search.device)
        return self.spaces[backend]

    def point(self, candidate: Candidate) -> OptionPoint:
        return point_of(candidate, self.choices(candidate.backend))

    def is_over(self) -> bool:
        no_more = self.races.ending.is_stopping or self.pool.full
        return no_more or time.monotonic() + self.cost_s >= self.until


def tune(pool: CandidatePool, alive: list[PoolEntry], until: float) -> list[PoolEntry]:
    """Returns the remaining entries and the equally fast ones tried here; the caller races all of them again."""
    raced = [entry for entry in alive if entry.contender is not None and entry.contender.slices_ms]
    if not raced:
        return alive
    tuning = _Tuning(pool, list(alive), until)
    _learn_from_the_race(tuning, raced)
    open_points = _points(tuning, raced)
    best = start = raced[0]
    loaded = best.loaded
    tuning.cost_s = _ENTERING_S + (2 * (loaded.load_ms + loaded.first_run_ms) / 1e3 if loaded else 0.0)
    count = 0
    while not tuning.is_over():
        left = [point for point, _ in open_points if point not in tuning.tried]
        found = best_point(left, tuning.effects, tuning.point(best.candidate))
        if found is None or found[1].hoped < _WORTH_TRYING:
            break
        point, gain = found
        candidate = next(each for other, each in open_points if other == point)
        tuning.tried.append(point)
        _emit_progress(tuning, best, candidate, gain, tuning.effects.unknown(point) > 0)
        begin = time.monotonic()
        entry = pool.add(candidate)
        count += 1
        if entry.contender is not None:
            ratio = _against(tuning, best, entry)
            if ratio is None:
                break
            best = _update_best(tuning, best, entry, ratio)
        if entry.status == "failed":
            tuning.effects.learn(point, tuning.point(best.candidate), _FAILED, _LEFT)
        tuning.cost_s = max(tuning.cost_s, time.monotonic() - begin)
    if count:
        gained = tuning.effects.gain(tuning.point(best.candidate), tuning.point(start.candidate))
        what = f"{best.candidate.name}, about {math.exp(gained.expected):.2f}x" if best is not start else "no gain"
        pool.resources.emit(
            Log("info", f"Tuned: tried {count} of {len(open_points)} combinations of options; {what}.")
        )
    for entry in tuning.alive:
        # Times measured here are from different rounds, so they are not comparable.
        if count and entry.contender is not None:
            entry.contender.slices_ms.clear()
    return [entry for entry in tuning.alive if entry.contender is not None]


def _points(tuning: _Tuning, raced: Sequence[PoolEntry]) -> list[tuple[OptionPoint, Candidate]]:
    """Returns the points to try, those with few changes first."""
    subjects: list[Candidate] = []
    for entry in raced:
        subject = subject_of(entry.candidate, tuning.choices(entry.candidate.backend))
        if subject not in subjects:
            subjects.append(subject)
    tuning.tried += [tuning.point(candidate) for candidate in tuning.pool.candidates]
    found = [
        (tuning.point(candidate), candidate)
        for subject in subjects[:_SUBJECTS]
        for candidate in candidates_of(subject, tuning.choices(subject.backend))
    ]
    return sorted(found, key=lambda each: len(each[0].choices))


def _learn_from_the_race(tuning: _Tuning, raced: Sequence[PoolEntry]) -> None:
    """Learns effects of the options from all entries that ran in the same rounds."""
    speeds = race.relative_speeds(tuning.races.baseline, raced)
    best = raced[0]
    for entry in raced[1:]:
        if speeds[id(entry)] > 0 and speeds[id(best)] > 0:
            longer = math.log(speeds[id(best)] / speeds[id(entry)])
            tuning.effects.learn(tuning.point(entry.candidate), tuning.point(best.candidate), longer, _RACED)
    for entry in tuning.pool.entries:
        if entry.lead is not None and entry.lead.share and entry.contender is None:
            one, other = tuning.point(entry.candidate), tuning.point(entry.lead.best)
            tuning.effects.learn(one, other, -math.log(entry.lead.share), _LEFT)


def _against(tuning: _Tuning, best: PoolEntry, entry: PoolEntry) -> float | None:
    """Returns the entry's speed relative to the best (1.0 = equal), in rounds of both; None if the best failed."""
    one, other = entry.contender, best.contender
    if one is None or other is None:
        return None
    span_ms = slice_ms(float(np.median(other.slices_ms)) if other.slices_ms else other.loaded.first_run_ms)
    one.slices_ms.clear()
    other.slices_ms.clear()
    logs: list[float] = []
    late = lambda: time.monotonic() >= tuning.until  # noqa: E731
    for each in run_slices([other, one], OPTIONS, lambda: span_ms, is_late=late):
        logs.append(math.log(one.slices_ms[-1] / other.slices_ms[-1]))
        if each.is_look and abs(float(np.median(logs))) > OPTIONS.apart_percent / 100:
            break
    if other.failure:
        best.drop("failed", other.failure)
        tuning.races.emit(final(best))
        return None
    if one.failure:
        entry.drop("failed", one.failure)
        tuning.races.emit(final(entry))
        return 0.0
    longer = float(np.median(logs))
    spread = max(_MIN_SPREAD, 1.25 * float(np.std(logs)) / math.sqrt(len(logs)))
    tuning.effects.learn(tuning.point(entry.candidate), tuning.point(best.candidate), longer, spread)
    return math.exp(-longer)


def _update_best(tuning: _Tuning, best: PoolEntry, entry: PoolEntry, ratio: float) -> PoolEntry:
    """Returns the best entry now; keeps the entry if it may be best, or may be preferred for its one thread."""
    if entry.contender is None:
        return best
    if ratio * race.margin(entry) < 1:
        entry.pace = RacePace(latency_ms=float(np.median(entry.contender.slices_ms)))
        entry.fall_behind(best.candidate, ratio)
        tuning.races.emit(final(entry))
        return best
    tuning.alive.append(entry)
    tuning.races.emit(racing(entry))
    return entry if ratio > 1 else best


def _emit_progress(tuning: _Tuning, best: PoolEntry, candidate: Candidate, gain: OptionGain, is_new: bool) -> None:
    expected = math.exp(gain.expected) - 1
    change, spread = units.percent(abs(expected), 0), units.percent(gain.spread, 0)
    expectation = f"{change} {'faster' if expected >= 0 else 'slower'} expected, give or take {spread}"
    message = f"{candidate.name}: {'not tried before' if is_new else expectation}"
    tuning.races.emit(Progress("tuning", message, best=best.candidate.name))


def run_races(pool: CandidatePool, builder: VariantBuilder) -> list[PoolEntry]:
    """Returns the finalists, best first, with measurements and why they are behind; all trials have ended."""
    best = race.enter_variants(pool, builder) or best_of(pool)
    _finish_race(pool.search.objective, pool.resources.baseline, best, pool.baseline)
    pool.close()
    return best


def best_of(pool: CandidatePool) -> list[PoolEntry]:
    """Returns the entries that remain after opening, tuning and final, best first."""
    if pool.search.objective.figure is not None:
        return minimize_objective(pool)
    if pool.room is not None:
        return maximize_throughput(pool, pool.room)
    if best := fast_enough(pool):
        return best
    races = pool.resources
    baseline, emit, clock, stop = races.baseline, races.emit, races.ending.clock, races.ending.stop
    if stop.is_set():
        soon_s = time.monotonic() + stopping.LAST_LOOK_S
        return race.race(baseline, pool.entries, OPENING, emit, stopping.STOPPING, soon_s)
    until_s = clock.until(race.OPENING_ENDS)
    alive = race.race(baseline, pool.entries, OPENING, emit, "racing", until_s, stop)
    if not stop.is_set():
        emit(Progress("tuning", "runtime options of the best candidates"))
        bucketed = pool.add_bucketed(alive, BUCKETED)
        alive = [*tune(pool, alive, clock.until(race.TUNING_ENDS)), *bucketed]
    best = race.race(baseline, alive, FINAL, emit, "final", clock.until(race.FINAL_ENDS), stop)
    if stop.is_set():
        races.ending.record_stop("racing")
    return best


def _finish_race(objective: Objective, baseline: Contender, best: list[PoolEntry], source: Candidate) -> None:
    """Records what every entry measured and why it is behind, then ends its trial."""
    speeds, shown = race.relative_speeds(baseline, best), objective.shown
    best_figure: float | None = None
    for place, entry in enumerate(best):
        entry.measured(baseline)
        share = speeds[id(entry)] / max(speeds[id(best[0])], 1e-9)
        figure = objective.figure_of(entry.contender, entry.size_bytes)
        entry.fall_behind(best[0].candidate, share)
        if place == 0:
            best_figure = figure
            first = "best in the race, but not proved better than the baseline"
            entry.drop("lost", "the baseline" if entry.candidate == source else first)
        elif figure is not None:
            than = f"{best[0].candidate.name} has {shown(best_figure or 0.0)}"
            entry.drop("lost", f"{objective.title} {shown(figure)}, where {than}")
