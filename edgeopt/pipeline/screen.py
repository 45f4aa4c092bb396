"""Candidates of all variants: screened, in the race or out of it, and their standings."""

import dataclasses
import math
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from edgeopt import units
from edgeopt.backends import option_kinds
from edgeopt.backends.plugin import plugin_of
from edgeopt.data.judging.goals import Goal
from edgeopt.data.judging.metric import Judged
from edgeopt.errors import Ending, TrialError
from edgeopt.events import Emit, Progress, Standing, TokenFigures
from edgeopt.measure.contender import PLUGIN_ANSWER_S, Contender
from edgeopt.measure.messages import ONE, Calls, Loaded, Memory
from edgeopt.measure.rounds import latency_ms, speedup
from edgeopt.measure.stats import Interval
from edgeopt.pipeline.builders.messages import PLANNED
from edgeopt.pipeline.builders.variants import Variants
from edgeopt.pipeline.context import SearchResources
from edgeopt.pipeline.inspect import Search
from edgeopt.pipeline.objectives import OVER, excess
from edgeopt.pipeline.outcome import Candidate, CandidateReport, Status
from edgeopt.pipeline.plans.gathering import Configs, ReadyVariant
from edgeopt.pipeline.plans.recipes import recipe_named
from edgeopt.pipeline.plans.space import StartOptions, configs_on, first_candidates, other_threads
from edgeopt.pipeline.runner import AccuracyReference, Answers, TrialRunner
from edgeopt.pipeline.shapes.filling import (
    LATEST,
    NO_BUCKETS,
    describe_filling,
    may_be_settled,
    settle_filling,
    with_buckets,
)
from edgeopt.pipeline.shapes.sized import Shaped
from edgeopt.pipeline.stopping import register_candidate


class RacePace(NamedTuple):
    """Speed of a candidate in the latest rounds; fields are None until it was measured."""

    speedup: Interval | None = None
    latency_ms: float | None = None
    throughput_per_s: float | None = None


NOT_MEASURED = RacePace()


class Lead(NamedTuple):
    """Best of those that a candidate ran with last, and the candidate's speed relative to it."""

    best: Candidate
    share: float
    """Speed relative to the best candidate (1.0 = equal)."""


@dataclass(slots=True)
class PoolEntry:
    """Candidate of the pool: in the race while it has a contender, afterwards a status with a reason."""

    candidate: Candidate
    contender: Contender | None = None
    status: Status = "lost"
    reason: str = ""
    accuracy_db: float | None = None
    accuracy_low_db: float | None = None
    tokens: TokenFigures | None = None
    pace: RacePace = NOT_MEASURED
    lead: Lead | None = None
    of_best: float | None = None
    """Share of the lead, if the candidate is out because of that."""
    ending: Ending = ""
    """Way in which the process ended, if the candidate failed because of that."""
    proof: Interval | None = None
    """Speed-up from a written bundle, with its verdict in the next field."""
    proof_verdict: str = ""
    loaded: Loaded | None = None
    memory: Memory | None = None
    size_bytes: int | None = None
    """Size of all files of the model."""

    @property
    def speedup(self) -> Interval | None:
        return self.pace.speedup

    @property
    def latency_ms(self) -> float | None:
        return self.pace.latency_ms

    def measured(self, baseline: Contender) -> None:
        """Stores the candidate's speed in the latest rounds."""
        if self.contender is not None and self.contender.slices_ms:
            middle_ms, by_sample = float(np.median(self.contender.slices_ms)), self.contender.by_sample
            self.pace = RacePace(
                speedup(baseline, self.contender),
                self.contender.run_ms if by_sample else middle_ms,
                1e3 / middle_ms if by_sample else None,
            )

    def fall_behind(self, best: Candidate, share: float) -> None:
        """Takes the candidate out of the race, as another is faster by `share` in the rounds that both ran."""
        self.lead = Lead(best, share)
        self.drop("lost", units.behind(share, best.name))
        self.of_best = share

    def drop(self, status: Status, reason: str) -> None:
        """Takes the candidate out of the race, for this reason."""
        self.status, self.reason, self.of_best = status, reason, None
        if self.contender is not None:
            self.memory = self.contender.memory
            self.contender.close()
            self.contender = None


def screen(
    runner: TrialRunner, reference: AccuracyReference, candidate: Candidate, path: Path, timeout_s: float
) -> PoolEntry:
    """Loads a candidate and compares its outputs with the baseline's; a good enough one stays loaded."""
    entry, backend, options, calls = PoolEntry(candidate), candidate.backend, candidate.options, candidate.calls
    try:
        contender = runner.enter(candidate.name, backend, path, options, calls=calls, timeout_s=timeout_s)
        entry.contender, entry.loaded = contender, contender.loaded
        judge(reference, entry, runner.outputs(contender, reference.split.check))
    except TrialError as error:
        entry.drop("failed", error.message)
        entry.ending = error.ending
    except BaseException:
        entry.drop("failed", "interrupted")
        raise
    return entry


def judge(reference: AccuracyReference, entry: PoolEntry, outputs: Answers) -> None:
    """Compares the outputs with the accuracy budget; takes the candidate out of the race if they are below it."""
    goal = reference.goal
    judged = reference.judge(reference.split.check, outputs, reference.outputs)
    entry.accuracy_db, entry.accuracy_low_db = judged.snr_db, judged.low_db
    entry.tokens = judged.token_figures
    if judged.problem:
        entry.drop("failed", judged.problem)
    elif not goal.may_meet(judged):
        entry.drop("below the floor", f"{_reached(goal, judged, len(outputs))}; the floor is {_floor(goal)}")


def _reached(goal: Goal, judged: Judged, count: int) -> str:
    where = f"on {count} samples not used for calibration"
    if goal.is_ratio:
        weakest = f": {judged.weakest.where}" if judged.weakest is not None else ""
        tail = goal.tail_words(judged.tail)
        return f"{judged.value:.1f} dB {where} (lower bound for others {judged.low:.1f}){weakest}{tail}"
    beside = f", {judged.snr_db:.1f} dB" if judged.snr_db is not None else ""
    return f"{goal.describe(judged)}{beside} {where}"


def _floor(goal: Goal) -> str:
    return f"{goal.floor:g} dB" if goal.is_ratio else str(goal)


# Each interval takes a millisecond: often enough to watch, seldom enough not to lengthen the race.
_EVERY_S = 0.3
# An interval of fewer rounds would look more certain than it is.
_FEWEST_ROUNDS = 3


class Ticker:
    """Emitter of the standings of the candidates in the race, at most every 0.3 s."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._emitted_s = time.monotonic()

    def update(self, baseline: Contender, alive: Iterable[PoolEntry]) -> None:
        if time.monotonic() - self._emitted_s < _EVERY_S:
            return
        for entry in alive:
            self._emit(racing(entry, baseline))
        self._emitted_s = time.monotonic()


def racing(entry: PoolEntry, baseline: Contender | None = None) -> Standing:
    """Returns the standing of a candidate in the race; with the baseline, its speed in the rounds so far."""
    ratio, latency_ms = entry.speedup, entry.latency_ms
    contender = entry.contender
    if baseline is not None and contender is not None and contender.slices_ms and baseline.slices_ms:
        ratio, latency_ms = speedup(baseline, contender), float(np.median(contender.slices_ms))
    ratio = ratio.stated if ratio is not None and ratio.rounds >= _FEWEST_ROUNDS else None
    return Standing(
        entry.candidate.name,
        "racing",
        latency_ms=latency_ms,
        speedup=ratio.median if ratio else None,
        speedup_low=ratio.low if ratio else None,
        speedup_high=ratio.high if ratio else None,
        accuracy_db=entry.accuracy_db,
        tokens=entry.tokens or msgspec.UNSET,
    )


def final(entry: PoolEntry | CandidateReport) -> Standing:
    """Returns the standing of a candidate that is out, or has won, as the outcome will report it.

    A standing is emitted when a candidate enters, while it races, and when it is out; the last one is its outcome.
    A candidate that is out may be called back for a proof: then it races again in the events, and its proof
    follows.
    """
    ratio = entry.speedup if isinstance(entry, CandidateReport) else entry.proof or entry.speedup
    ratio = ratio and ratio.stated
    return Standing(
        entry.candidate.name,
        entry.status,
        entry.reason,
        latency_ms=entry.latency_ms,
        speedup=ratio.median if ratio else None,
        speedup_low=ratio.low if ratio else None,
        speedup_high=ratio.high if ratio else None,
        accuracy_db=entry.accuracy_db,
        tokens=entry.tokens or msgspec.UNSET,
        of_best=entry.of_best if entry.status == "lost" else None,
    )


LARGEST_BATCH = 32
# For the baseline: batches up to this size show what batching gains; longer runs would use up the search time.
_TRIED_BATCH, _TRIED_MS = 8, 100.0
_OF_STREAMS = ("performance_hint", "streams")


class LoadLimits(msgspec.Struct, frozen=True):
    """Numbers of callers and batch sizes that are possible, each in rising order from 1."""

    callers: tuple[int, ...]
    batches: tuple[int, ...] = (1,)

    @property
    def cores(self) -> int:
        return self.callers[-1]


def load_limits(cores: int, batches: bool) -> LoadLimits:
    """Returns powers of two as load limits; at most one caller for each core, as more would only queue up."""
    callers = {1, cores, *_powers(cores)}
    return LoadLimits(tuple(sorted(callers)), tuple(_powers(LARGEST_BATCH)) if batches else (1,))


def _powers(maximum: int) -> Iterable[int]:
    return (2**k for k in range(maximum.bit_length()) if 2**k <= maximum)


def with_calls(candidate: Candidate, calls: Calls, room: LoadLimits) -> Candidate:
    """Returns the same candidate with this number of callers, and the threads and streams that remain for each."""
    known = option_kinds(candidate.backend)
    options = dict(candidate.options)
    if "streams" in known:
        options = {name: value for name, value in options.items() if name not in _OF_STREAMS}
        if calls.callers > 1:
            options |= {"performance_hint": "throughput", "streams": calls.callers}
    elif "threads" in known and calls.callers > 1:
        # Each caller computes itself, in addition to the threads that all callers share.
        options["threads"] = room.cores - calls.callers + 1
    elif "threads" in known and candidate.calls.callers > 1:
        options.pop("threads", None)
    shapes = options.get("shapes")
    if isinstance(shapes, dict):
        options["shapes"] = {name: [calls.batch, *sizes[1:]] for name, sizes in shapes.items()}
    return msgspec.structs.replace(candidate, options=options, calls=calls)


def at_first(candidate: Candidate, room: LoadLimits | None) -> Candidate:
    """Returns the candidate with a caller for each core, usually the best; unchanged without `room`."""
    return candidate if room is None else with_calls(candidate, Calls(room.cores), room)


def other_callers(candidate: Candidate, room: LoadLimits) -> list[Candidate]:
    batch = candidate.calls.batch
    others = [count for count in reversed(room.callers) if count != candidate.calls.callers]
    return [with_calls(candidate, Calls(count, batch), room) for count in others]


def next_batches(candidate: Candidate, room: LoadLimits) -> list[Candidate]:
    """Returns the candidate with twice as many samples a run, and with half as many."""
    place = room.batches.index(candidate.calls.batch)
    sizes = (*room.batches[place + 1 : place + 2], *room.batches[max(0, place - 1) : place])
    return [with_calls(candidate, Calls(candidate.calls.callers, size), room) for size in sizes]


def to_try_on(room: LoadLimits, run_ms: float) -> list[Calls]:
    """Returns ways to call plain ONNX Runtime; the best is the baseline. `run_ms` is the time of one sample."""
    several = room.batches[1:]
    quick = [size for size in several if size <= _TRIED_BATCH and size * run_ms <= _TRIED_MS]
    batches = (1, *(quick or several[:1])[-1:])
    return [Calls(callers, batch) for callers in dict.fromkeys((1, room.cores)) for batch in batches] or [ONE]


_LONGEST_LOAD_S = 60.0
_SMALL_MS = 2.0
_FAR_DB = 3.0


class CandidatePool:
    """Candidates of one search, in the order in which they were screened."""

    def __init__(
        self, search: Search, resources: SearchResources, variants: Variants, room: LoadLimits | None = None
    ) -> None:
        """Creates an empty pool; `room` is the load that may be changed in a search for throughput."""
        self.entries: list[PoolEntry] = []
        self.room = room
        self.search, self.resources, self.variants = search, resources, variants
        self._shaped = search.data.shaped
        # Several threads on a small model run at one of two speeds, by chance: judged by those alone, a good
        # variant could be out before its runtime options are tuned.
        self._small = room is None and latency_ms(resources.baseline) < _SMALL_MS

    @property
    def starts(self) -> StartOptions:
        return self.search.starts

    @property
    def baseline(self) -> Candidate:
        return self.search.baseline

    @property
    def full(self) -> bool:
        """Whether the limit of the profile is reached: only the first candidate of each variant is still added."""
        return len(self.entries) >= self.search.profile.search.max_candidates

    @property
    def candidates(self) -> list[Candidate]:
        """Returns all candidates that were screened."""
        return [entry.candidate for entry in self.entries]

    @property
    def racing_count(self) -> int:
        """Returns the number of candidates still in the race."""
        return sum(entry.contender is not None for entry in self.entries)

    def enter(self, ready: ReadyVariant) -> None:
        """Screens the first candidates of a variant."""
        if ready.variant == "source" and self.room is not None:
            self.add(self.baseline)
        for candidate in _firsts(ready, self.starts):
            if ready.variant != PLANNED and self._floats_are_below(candidate):
                continue
            if plugin_of(candidate.backend) and self._has_hung(candidate.backend):
                continue
            if recipe_named(ready.variant).whole and self._is_far_below(ready.variant):
                return  # all layers have eight bits: another precision of the rest does not help
            self._screen(candidate)

    def add(self, candidate: Candidate) -> PoolEntry:
        """Screens one more candidate of a variant that is already made."""
        resources, path = self.resources, self.variants.path(candidate.variant, candidate.backend)
        limit_s = PLUGIN_ANSWER_S if plugin_of(candidate.backend) else _LONGEST_LOAD_S
        entry = screen(resources.runner, self.search.reference, candidate, path, limit_s)
        if entry.status == "failed" and "shapes" in candidate.options and "buckets" not in candidate.options:
            # Not every model that runs with open shapes can be compiled with the data's own.
            rest = {name: value for name, value in candidate.options.items() if name != "shapes"}
            plainer = msgspec.structs.replace(candidate, options=rest)
            entry = screen(resources.runner, self.search.reference, plainer, path, _LONGEST_LOAD_S)
        entry.size_bytes = self.variants.size_bytes(candidate)
        if entry.contender is not None:
            entry.contender.by_sample = self.room is not None
            over = excess(self.search.goal.limits, entry.contender.memory, entry.size_bytes)
            if over:
                entry.drop(OVER, over)
        self.entries.append(entry)
        if entry.contender is not None and candidate != self.baseline:
            register_candidate(resources.ending.stop)
        resources.emit(racing(entry) if entry.contender is not None else final(entry))
        return entry

    def add_bucketed(self, best: Sequence[PoolEntry], maximum: int) -> list[PoolEntry]:
        """Adds the first few candidates that can have a program for each size that was asked for."""
        if self._shaped is None:
            return []
        able = next((e.candidate for e in best if "shapes" in e.candidate.options), None)
        if able is not None and may_be_settled(self._shaped):
            self._shaped = self._filled(self._shaped, able)
        found = with_buckets(self._shaped, [entry.candidate for entry in best], maximum)
        if not found:
            self.resources.notes.inform(NO_BUCKETS)
        return [self.add(one) for one in found if one not in self.candidates]

    def floats_ms(self, planned: Candidate) -> float:
        """Returns the time of the fastest exact variant with a plan's options; infinite if none is in the race."""
        found = math.inf
        for entry in self.entries:
            one = entry.candidate
            alike = (one.backend, one.options) == (planned.backend, planned.options)
            if alike and entry.contender is not None:
                with suppress(TrialError):
                    found = min(found, latency_ms(entry.contender))
        return found

    def configs_to_plan(self) -> Configs:
        """Returns the configurations to plan precisions for, the fastest in floats first."""
        return configs_on(self.search.profile, self.starts, self.floats_ms)

    def close(self) -> None:
        """Ends all trials that still run."""
        for entry in self.entries:
            if entry.contender is not None:
                entry.contender.close()

    def _filled(self, shaped: Shaped, able: Candidate) -> Shaped:
        resources = self.resources
        resources.emit(Progress("tuning", "sizes from which padding pays"))
        path = self.variants.path(able.variant, able.backend)
        minimum = settle_filling(resources.runner, shaped, able, path, resources.ending.clock.until(LATEST))
        for dimension in shaped.dimensions:
            if dimension.name in minimum:
                resources.notes.inform(describe_filling(dimension, minimum[dimension.name]))
        return dataclasses.replace(shaped, fill_from=minimum)

    def _is_far_below(self, variant: str) -> bool:
        """Whether a candidate of the variant misses the floor in dB by more than another precision may change."""
        floor_db = self.search.reference.goal.target_db
        found = [entry.accuracy_db for entry in self.entries if entry.candidate.variant == variant]
        return floor_db is not None and any(each is not None and each < floor_db - _FAR_DB for each in found)

    def _floats_are_below(self, candidate: Candidate) -> bool:
        """Whether the source itself misses the floor in the precision of this candidate's floats."""
        precision = candidate.options.get("precision")
        return any(
            entry.status == "below the floor"
            and entry.candidate.variant == "source" != candidate.variant
            and entry.candidate.backend == candidate.backend
            and entry.candidate.options.get("precision") == precision
            for entry in self.entries
        )

    def _has_hung(self, backend: str) -> bool:
        """Whether a candidate has hung on the backend, where each variant would take as long again."""
        return any(entry.ending == "hung" and entry.candidate.backend == backend for entry in self.entries)

    def _screen(self, candidate: Candidate) -> None:
        resources = self.resources
        if resources.ending.is_stopping:
            return
        candidate = at_first(candidate, self.room)
        resources.emit(Progress("screening", candidate.name))
        entry = self.add(candidate)
        if entry.contender is not None and self._small and not self.full:
            for other in other_threads(candidate, self.starts.space):
                self.add(other)


def numbers_of(candidate: Candidate) -> tuple[object, ...]:
    """Returns the properties that determine a candidate's outputs: other runtime options change times alone."""
    numeric = ("precision", recipe_named(candidate.variant).numeric)
    return candidate.variant, candidate.backend, *(candidate.options.get(name) for name in numeric)


def _firsts(ready: ReadyVariant, starts: StartOptions) -> list[Candidate]:
    """Returns the first candidates: a plan with its own options, a scheme with each value of numeric ones."""
    if ready.planned is None:
        return first_candidates(ready.variant, ready.backends, starts)
    options = ready.planned.options
    if ready.variant == PLANNED:
        return [Candidate(ready.variant, backend, dict(options)) for backend in ready.backends]
    found = first_candidates(ready.variant, ready.backends, starts)
    fixed = [msgspec.structs.replace(each, options={**each.options, **options}) for each in found]
    return [each for place, each in enumerate(fixed) if each not in fixed[:place]]
