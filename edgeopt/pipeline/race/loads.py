"""Race for throughput: finds the best load of plain ONNX Runtime, and candidates that give more in their own."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import numpy as np

from edgeopt.backends.base import TensorInfo
from edgeopt.data.samples import Samples
from edgeopt.errors import TrialError
from edgeopt.events import Log, Progress
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.measure.contender import Contender
from edgeopt.measure.messages import ONE, Calls
from edgeopt.measure.rounds import latency_ms, run_rounds, slice_ms
from edgeopt.measure.schedules import FINAL, LOADS, OPENING, TUNING, Schedule
from edgeopt.pipeline.baseline import Baseline
from edgeopt.pipeline.context import SearchContext, SearchResources
from edgeopt.pipeline.inspect import Search
from edgeopt.pipeline.objectives import OVER, ResourceLimits, excess
from edgeopt.pipeline.outcome import Candidate
from edgeopt.pipeline.race import race
from edgeopt.pipeline.runner import AccuracyReference, TrialRunner
from edgeopt.pipeline.screen import (
    CandidatePool,
    LoadLimits,
    PoolEntry,
    final,
    load_limits,
    next_batches,
    other_callers,
    to_try_on,
    with_calls,
)
from edgeopt.pipeline.stopping import SearchClock

ALIKE_DB = 100.0
"""Accuracy in dB at which rows of a batch are independent: smaller differences to single runs are rounding."""
_SETTLED = 0.12
_TUNED = 2
_BATCH = 8


def choose_load(
    search: Search, baseline: Baseline, place: SearchContext, clock: SearchClock, stack: ExitStack
) -> tuple[Baseline, LoadLimits]:
    """Returns the baseline in the load with its highest throughput, and the loads to try."""
    device, emit = place.device, place.notes.emit
    emit(Progress("preparing", "the best load for the baseline"))
    why = no_batches(search.facts.inputs, search.data.samples, search.reference, baseline.contender, place.runner)
    if why:
        emit(Log("info", f"Batches are not tried: {why}."))
    cores = max(1, min(device.limits.usable_cores, device.cpu.logical_cores))
    alone, room = baseline.contender, load_limits(cores, not why)
    alone_ms = latency_ms(alone)
    field = [
        alone,
        *_further(
            search.request.model, baseline.candidate.backend, place.runner, to_try_on(room, alone_ms), stack
        ),
    ]
    _run_in_turns(field, slice_ms(alone_ms), clock.until(_SETTLED))
    ran = [each for each in field if each.failure is None and each.slices_ms]
    if not ran:
        raise TrialError(f"The source model {(alone.failure or '').rstrip('.')} while it was measured.", race.HINT)
    quick = [each for each in ran if not excess(search.goal.limits, latency_ms=each.run_ms)]
    best = min(quick, key=_sample_ms) if quick else min(ran, key=lambda each: each.run_ms)
    for each in field:
        if each is not best:
            each.close()
    best.slices_ms.clear()
    calls = Calls(best.concurrency, best.batch)
    return Baseline(msgspec.structs.replace(baseline.candidate, calls=calls), best), room


def _run_in_turns(field: list[Contender], span_ms: float, until_s: float) -> None:
    """Warms up the contenders, then runs them interleaved, measured by samples per second."""
    for each in field:
        each.by_sample = True
    run_rounds(field, 1, span_ms)
    for each in field:
        each.slices_ms.clear()
    run_rounds(field, LOADS.maximum, span_ms, lambda: time.monotonic() >= until_s)


def _sample_ms(contender: Contender) -> float:
    return float(np.median(contender.slices_ms))


def _further(
    model: Path, backend: str, runner: TrialRunner, ways: list[Calls], stack: ExitStack
) -> list[Contender]:
    """Starts the source in plain defaults, called in further ways; skips those that fail."""
    found = []
    for calls in ways:
        if calls == ONE:
            continue
        try:
            found.append(runner.enter(f"baseline, {calls}", backend, model, calls=calls))
        except TrialError:
            continue
        stack.callback(found[-1].close)
    return found


def no_batches(
    inputs: Sequence[TensorInfo],
    samples: Samples,
    reference: AccuracyReference,
    contender: Contender,
    runner: TrialRunner,
) -> str:
    """Returns why samples cannot run in one batch, or would affect each other's outputs; empty if they can."""
    closed = next((i for i in inputs if not i.shape or isinstance(i.shape[0], int)), None)
    if closed is not None:
        return f"the first axis of the input '{closed.name}' is fixed"
    if any(sizes[:1] != [1] for sizes in samples.shapes().values()):
        return "the samples are batches already"
    if samples.sizes:
        return "the samples differ in size"
    which = reference.split.check
    if len(which) < 2:
        return "one sample cannot show that rows are independent"
    try:
        together = runner.outputs(contender, which, min(len(which), _BATCH))
    except TrialError as error:
        return f"with several samples in a run, the model {error.message.rstrip('.')}"
    alike = compare_outputs(reference.outputs, together)
    if alike.problem or alike.snr_db < ALIKE_DB:
        difference = alike.problem or f"{alike.snr_db:.0f} dB"
        return f"outputs of a batch differ from outputs one by one ({difference}; {ALIKE_DB:g} dB are needed)"
    return ""


def maximize_throughput(pool: CandidatePool, room: LoadLimits) -> list[PoolEntry]:
    """Runs opening, tuning of callers and batches, and final; returns the rest, highest throughput first."""
    limits, races = pool.search.goal.limits, pool.resources
    alive = _raced(limits, races, pool.entries, OPENING, "racing", race.OPENING_ENDS)
    late_s, stop = races.ending.clock.until(race.TUNING_ENDS), races.ending.stop

    def added(candidates: list[Candidate]) -> list[PoolEntry]:
        """Adds candidates that are new, as long as there is time and room; returns those that run."""
        found = []
        for candidate in candidates:
            over = pool.full or time.monotonic() >= late_s or stop.is_set()
            if over or candidate in pool.candidates:
                continue
            entry = pool.add(candidate)
            if entry.contender is not None:
                found.append(entry)
        return found

    if not alive:
        # With one caller, each answer takes less time.
        slow = [e.candidate for e in pool.entries if e.status == OVER and e.candidate.calls != ONE]
        alive = added([with_calls(one, ONE, room) for one in slow[:_TUNED]])
    races.emit(Progress("tuning", "callers and batches of the best candidates"))
    for entry in alive[:_TUNED]:
        alive += added([*other_callers(entry.candidate, room), *next_batches(entry.candidate, room)])
    alive = _raced(limits, races, alive, TUNING, "tuning", race.TUNING_ENDS)
    while alive and time.monotonic() < late_s:
        further = added(next_batches(alive[0].candidate, room))
        if not further:
            break
        alive = _raced(limits, races, [*alive, *further], TUNING, "tuning", race.TUNING_ENDS)
    best = _raced(limits, races, alive, FINAL, "final", race.FINAL_ENDS)
    if stop.is_set():
        races.ending.record_stop("racing")
    return best


def _raced(
    limits: ResourceLimits,
    races: SearchResources,
    entries: list[PoolEntry],
    turns: Schedule,
    phase: str,
    ends: float,
) -> list[PoolEntry]:
    """Runs a race, then removes the entries that exceed the latency limit."""
    baseline, until_s = races.baseline, races.ending.clock.until(ends)
    kept = []
    for entry in race.race(baseline, entries, turns, races.emit, phase, until_s, races.ending.stop):
        run_ms = entry.contender.run_ms if entry.contender is not None else None
        too_long = excess(limits, latency_ms=run_ms)
        if not too_long:
            kept.append(entry)
            continue
        entry.measured(baseline)
        entry.drop(OVER, f"{entry.candidate.calls}: {too_long}")
        races.emit(final(entry))
    return kept
