"""Race of the candidates that passed screening, interleaved, for time or energy."""

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from edgeopt.backends import lean_options
from edgeopt.errors import MissingError, TrialError
from edgeopt.events import Emit, Progress
from edgeopt.hw.device import Unavailable
from edgeopt.measure.contender import Contender, take_slice
from edgeopt.measure.instruments.energy import EnergyMeter, energy
from edgeopt.measure.rounds import DeviceWatch, latency_ms, run_slices, slice_ms, speedup, take_turns
from edgeopt.measure.schedules import FIGURES, METERED, METERED_FINAL, Schedule
from edgeopt.pipeline.builders.messages import REPAIR_BASE
from edgeopt.pipeline.objectives import ENERGY, MEMORY, Objective
from edgeopt.pipeline.outcome import Candidate
from edgeopt.pipeline.plans.gathering import ReadyVariant, VariantBuilder
from edgeopt.pipeline.plans.recipes import place_of, recipe_named
from edgeopt.pipeline.screen import CandidatePool, PoolEntry, Ticker, final

# Longest time in seconds to meter each of many candidates; a battery's gauge needs a minute.
_LONGEST_S = 2.0
_HINT = (
    "Search for latency instead, which usually saves energy too. Energy needs readable RAPL "
    "counters, a power meter on the board, or an NVIDIA GPU."
)
_FINALISTS = 6
_ON_NVIDIA = ("-cuda", "-tensorrt")


def open_meter(objective: Objective, backends: Sequence[str], stack: ExitStack) -> EnergyMeter | None:
    """Opens the meter before the long work; raises MissingError if there is none, or it is too slow."""
    if objective.name != ENERGY:
        return None
    nvidia = any(name.endswith(_ON_NVIDIA) for name in backends)
    meter = EnergyMeter.open(gpus=[0] if nvidia else [])
    if isinstance(meter, Unavailable):
        raise MissingError(f"The energy of a run cannot be measured here: {meter.reason}.", _HINT)
    stack.callback(meter.close)
    if _span_s(meter) > _LONGEST_S:
        raise MissingError(
            f"The meter here ({meter.source}) is too slow for a search: it needs {meter.resolution_s:g} s "
            "of one candidate without interruption.",
            "Search for latency, and compare the energy of two models with: edgeopt bench A --against B "
            "--duty sustained",
        )
    return meter


def meter_all(
    meter: EnergyMeter,
    contenders: Sequence[Contender],
    emit: Emit,
    turns: Schedule = METERED,
    until: float = math.inf,
) -> None:
    """Measures the energy of a run of each contender, interleaved; the first round runs however late it is."""

    def emit_round(number: int, _count: int) -> None:
        emit(Progress("metering", f"{len(contenders)} interleaved", number, turns.maximum))

    def stretch(contender: Contender) -> float | None:
        return _joules(meter, contender)

    watch = DeviceWatch(before=emit_round)
    for each in take_turns(contenders, turns, stretch, watch, is_late=lambda: time.monotonic() >= until):
        for contender, joules in each.taken:
            contender.joules.append(joules)


def meter_field(meter: EnergyMeter, contenders: Sequence[Contender], emit: Emit, until: float) -> frozenset[int]:
    """Measures all contenders, then the best again; returns the `id` of these, comparable with each other."""
    meter_all(meter, contenders, emit, until=until)
    known = sorted((c for c in contenders if c.joules), key=lambda c: float(np.median(c.joules)))[:_FINALISTS]
    if time.monotonic() < until:
        for contender in known:
            contender.joules.clear()
        meter_all(meter, known, emit, METERED_FINAL, until)
    return frozenset(map(id, known))


def _joules(meter: EnergyMeter, contender: Contender) -> float | None:
    """Returns the energy of a run in joules; None if the meter or the contender gave nothing."""
    span_ms = max(1e3 * _span_s(meter), slice_ms(contender.run_ms or contender.loaded.first_run_ms))
    before, begin_s = meter.joules(), time.monotonic()
    answer = take_slice(contender, span_ms)
    after, wall_s = meter.joules(), time.monotonic() - begin_s
    if answer is None or before is None or after is None or not answer.seconds:
        return None
    return energy(meter, after - before, wall_s, len(answer.latencies_ms) / answer.seconds).joules_per_run


def _span_s(meter: EnergyMeter) -> float:
    return 2 * meter.resolution_s


# Shares of the time before the proof at which each phase ends.
OPENING_ENDS, TUNING_ENDS, FINAL_ENDS = 0.83, 0.9, 1.0
# Two candidates this close count as equal; the more accurate one is then the better choice.
_SAME_SPEED = 1.01
# One thread keeps the other cores free, and its speed does not depend on how the system places several.
SPARE_CORES = 1.08
_ENOUGH_TO_TRIM = 6
HINT = "Measure the model alone with `edgeopt bench`; the device may be short of memory."


def race(
    baseline: Contender,
    entries: Sequence[PoolEntry],
    turns: Schedule,
    emit: Emit,
    phase: str,
    deadline: float,
    stop: threading.Event | None = None,
) -> list[PoolEntry]:
    """Removes entries that are far behind at a look, with a reason; returns those still alive, best first.

    `stop` ends the race as the deadline does, but never before two rounds, which are needed to choose.
    """

    def is_over() -> bool:
        return time.monotonic() >= deadline or (stop is not None and stop.is_set())

    alive = [e for e in entries if e.contender is not None]
    field = [baseline, *_contenders(alive)]
    if is_over() and all(contender.slices_ms for contender in field[1:]):
        return ranked(baseline, alive)
    # Candidates are compared within the same rounds only, so times of earlier stages are dropped.
    for contender in field:
        contender.slices_ms.clear()
    ticker, span_ms = Ticker(emit), _span_ms(field)
    for each in run_slices(field, turns, lambda: span_ms, is_late=is_over):  # noqa: B023 - of this round
        if baseline.failure:
            raise TrialError(f"The source model {baseline.failure.rstrip('.')} while it was measured.", HINT)
        alive = _without_the_fallen(alive, emit)
        _emit_progress(emit, phase, each.done, turns.maximum, baseline, alive)
        ticker.update(baseline, alive)
        if each.is_look:
            alive = _keep(baseline, alive, turns.keeps[turns.looks.index(each.done)], emit)
            if len(alive) == 1:
                break
        field[1:] = _contenders(alive)
        span_ms = _span_ms(field)
    return ranked(baseline, alive)


def _contenders(entries: Sequence[PoolEntry]) -> list[Contender]:
    return [entry.contender for entry in entries if entry.contender is not None]


def ranked(baseline: Contender, entries: Sequence[PoolEntry]) -> list[PoolEntry]:
    """Sorts fastest first; among those within chance of the fastest, the most accurate or simplest leads."""
    speeds = relative_speeds(baseline, entries)
    order = sorted(entries, key=lambda e: speeds[id(e)], reverse=True)
    equals = [e for e in order if speeds[id(e)] * margin(e) >= speeds[id(order[0])]]
    if equals:
        first = min(equals, key=_plainness)
        order.remove(first)
        order.insert(0, first)
    return order


def margin(entry: PoolEntry) -> float:
    return SPARE_CORES if one_thread(entry.candidate) else _SAME_SPEED


def _plainness(entry: PoolEntry) -> tuple[int, bool, float, int, int]:
    """Returns a sort key: few samples in flight, one thread, high accuracy, early recipe, few options first."""
    candidate = entry.candidate
    under_way, several = candidate.calls.callers * candidate.calls.batch, not one_thread(entry.candidate)
    place = place_of(candidate.variant)
    return under_way, several, -(entry.accuracy_db or 0.0), place, len(candidate.options)


def one_thread(candidate: Candidate) -> bool:
    return candidate.options.get("threads") == 1 and candidate.calls.callers == 1


def relative_speeds(baseline: Contender, entries: Sequence[PoolEntry]) -> dict[int, float]:
    """Returns the speed of each entry (by `id`) against the middle of the field, round by round.

    The whole field is a steadier yardstick than the baseline alone, whose own slices are as noisy as any.
    """
    running = [(id(e), e.contender.slices_ms) for e in entries if e.contender is not None]
    rounds = min([len(baseline.slices_ms), *(len(s) for _, s in running)])
    if rounds == 0 or not running:
        return {id(e): 0.0 for e in entries}
    times = np.log([baseline.slices_ms[-rounds:], *(s[-rounds:] for _, s in running)])
    against_field = _middle_mean(times - np.median(times, axis=0))
    speeds = {key: float(np.exp(-t)) for (key, _), t in zip(running, against_field[1:], strict=True)}
    return {id(e): speeds.get(id(e), 0.0) for e in entries}


def _middle_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the mean of each row without its extremes.

    A median would not see that a candidate runs at one of two speeds: two threads of a small model do, as the
    system happens to place them, and which one a user meets is chance.
    """
    if values.shape[1] >= _ENOUGH_TO_TRIM:
        values = np.sort(values, axis=1)[:, 1:-1]
    return np.asarray(values.mean(axis=1))


def _keep(baseline: Contender, alive: list[PoolEntry], share: float, emit: Emit) -> list[PoolEntry]:
    if not alive:
        return []
    speeds = relative_speeds(baseline, alive)
    best = ranked(baseline, alive)[0]
    kept = []
    for entry in alive:
        part = speeds[id(entry)] / max(speeds[id(best)], 1e-9)
        if entry is best or part >= share:
            kept.append(entry)
        else:
            entry.measured(baseline)
            entry.fall_behind(best.candidate, part)
            emit(final(entry))
    return kept


def _without_the_fallen(alive: list[PoolEntry], emit: Emit) -> list[PoolEntry]:
    for entry in alive:
        if entry.contender is not None and entry.contender.failure:
            entry.drop("failed", entry.contender.failure)
            emit(final(entry))
    return [e for e in alive if e.contender is not None]


def _span_ms(field: Sequence[Contender]) -> float:
    """Returns the length of a slice in ms, the same for all contenders and long enough for the slower half."""
    known = [contender.run_ms for contender in field if contender.slices_ms]
    return slice_ms(float(np.median(known)) if known else field[0].loaded.first_run_ms)


def _emit_progress(
    emit: Emit, phase: str, done: int, total: int, baseline: Contender, alive: list[PoolEntry]
) -> None:
    best = ranked(baseline, alive)[0] if alive else None
    leader = None
    if best is not None and best.contender is not None:
        found = speedup(baseline, best.contender)
        leader = f"{best.candidate.name} {found.median:.2f}x" if found.usable else best.candidate.name
    emit(Progress(phase, f"{len(alive)} candidates left", done, total, leader))


BUCKETED = 2
"""Number of best candidates for which a program per size is tried."""
_LEAN_TRIED, _SAVES = 3, 0.99
"""Number of candidates whose memory is reduced by options, and the share of memory at which an option is kept."""
# Slower than the baseline by less than this may be chance.
AS_FAST = 0.97


def enter_variants(pool: CandidatePool, builder: VariantBuilder) -> list[PoolEntry]:
    """Screens variants as they are built; returns all candidates, best first, once one reaches the target."""
    resources = pool.resources
    resources.emit(Progress("making variants"))
    best: list[PoolEntry] = []
    for part in variant_parts(pool, builder):
        for ready in part:
            pool.enter(ready)
        if resources.ending.is_stopping or (best := fast_enough(pool)):
            break
    builder.close()
    if resources.ending.is_stopping and not best:
        resources.ending.record_stop("making variants", pool.racing_count)
    return best


def variant_parts(pool: CandidatePool, builder: VariantBuilder) -> Iterator[Iterator[ReadyVariant]]:
    """Yields the parts of the variants; what was screened decides on the repair and on the order of plans."""
    yield from builder.first_parts()
    if builder.repairs and builder.floor_db is not None:
        yield builder.repaired(*decide_repair(pool, builder.floor_db))
    if builder.plans:
        yield builder.planned(pool.configs_to_plan())
    yield builder.uniform()


_BARELY_DB = 6.0
"""Margin above the floor in dB: with less on the samples that screen, a model may fail on those that prove."""
_BY_NNCF = ("nncf-int8", REPAIR_BASE)
_TURNS, _LONGEST_LOAD_S = 3, 60.0


class RepairDecision(NamedTuple):
    """Accuracy in dB that a repair of NNCF's model must reach; None if there is none to make, with the reason."""

    floor_db: float | None
    reason: str = ""


def decide_repair(pool: CandidatePool, floor_db: float) -> RepairDecision:
    """Decides by the candidates that were screened whether NNCF's model is repaired, and to which accuracy.

    A model that is barely within the floor may miss it on the samples of its proof: then the repaired one is next.
    """
    within = [e for e in pool.entries if e.contender is not None and e.candidate.variant in _BY_NNCF]
    best_db = max((e.accuracy_db for e in within if e.accuracy_db is not None), default=-math.inf)
    if best_db >= floor_db + _BARELY_DB:
        return RepairDecision(None, "not made: the model that NNCF quantized needs no repair")
    if within:
        return RepairDecision(floor_db + _BARELY_DB)
    faster = _faster_than_eight_bits(pool)
    if faster:
        return RepairDecision(None, f"not made: with all layers in int8, the model is no faster than {faster}")
    return RepairDecision(floor_db)


def _faster_than_eight_bits(pool: CandidatePool) -> str:
    """Returns the name of a candidate that NNCF's whole model in eight bits does not beat; empty if there is none.

    Layers returned to float only make that model slower, so its repair could not win.
    """
    missed = next((e.candidate for e in pool.entries if e.candidate.variant == REPAIR_BASE), None)
    if missed is None:
        return ""
    rivals = [e for e in pool.entries if e.contender is not None and _same_but_numbers(e.candidate, missed)]
    with suppress(TrialError):
        times_ms = [(latency_ms(e.contender), e) for e in rivals if e.contender is not None]
        best = min(times_ms, key=lambda each: each[0], default=(0.0, None))[1]
        if best is None or best.contender is None:
            return ""
        runner, path = pool.resources.runner, pool.variants.path(missed.variant, missed.backend)
        options = best.candidate.options
        loaded = runner.enter(missed.name, missed.backend, path, options, timeout_s=_LONGEST_LOAD_S)
        try:
            # Alternately, so that a busy moment does not decide.
            if all(latency_ms(best.contender) <= latency_ms(loaded) for _ in range(_TURNS)):
                return best.candidate.name
        finally:
            loaded.close()
    return ""


def _same_but_numbers(one: Candidate, other: Candidate) -> bool:
    """Whether both have the same backend and the same options, except for the precision of floats."""
    numeric = recipe_named(other.variant).numeric
    ours, theirs = ({k: v for k, v in each.options.items() if k != numeric} for each in (one, other))
    return (one.backend, ours) == (other.backend, theirs)


def fast_enough(pool: CandidatePool) -> list[PoolEntry]:
    """Returns all candidates, best first, if one reliably reaches the target speed-up; otherwise nothing."""
    goal = pool.search.goal
    target = goal.target_speedup
    if target is None or goal.objective.figure is not None:
        return []
    best = ranked_by_speed(pool)
    contender = best[0].contender if best else None
    enough = contender is not None and speedup(pool.resources.baseline, contender).low >= target
    return best if enough else []


def ranked_by_speed(pool: CandidatePool) -> list[PoolEntry]:
    """Ranks all candidates in the race after some rounds; removes none."""
    resources = pool.resources
    until_s = resources.ending.clock.until(OPENING_ENDS)
    return race(resources.baseline, pool.entries, FIGURES, resources.emit, "racing", until_s)


def add_lean(pool: CandidatePool, ranked: Sequence[PoolEntry]) -> bool:
    """Adds the candidates with the least memory again, with the options of their backend that may save memory.

    Options are added one by one and kept where they save memory; they may interact, as an arena does with blocks.
    """
    resources, figure = pool.resources, pool.search.objective.figure_of
    resources.emit(Progress("tuning", "runtime options that save memory"))
    known = [(figure(e.contender, e.size_bytes), e) for e in ranked if e.contender is not None]
    smallest = sorted(((size, e) for size, e in known if size is not None), key=lambda each: each[0])
    added = False
    for before, entry in smallest[:_LEAN_TRIED]:
        best, least = entry.candidate, before
        for option, value in lean_options(best.backend).items():
            if resources.ending.is_stopping or time.monotonic() >= resources.ending.clock.until(TUNING_ENDS):
                return added
            if best.options.get(option) == value:
                continue
            tried = pool.add(msgspec.structs.replace(best, options={**best.options, option: value}))
            if tried.contender is None:
                continue
            with suppress(TrialError):
                latency_ms(tried.contender)  # memory is measured after runs
            less = figure(tried.contender, tried.size_bytes)
            added = True
            if less is not None and less <= _SAVES * least:
                best, least = tried.candidate, less
    return added


def minimize_objective(pool: CandidatePool) -> list[PoolEntry]:
    """Returns those that are not slower than the baseline, the one with the least of the objective first."""
    goal, races = pool.search.goal, pool.resources
    objective, any_speed = goal.objective, goal.limits.latency_ms is not None
    ranked = ranked_by_speed(pool)
    if objective.of_time and pool.add_bucketed(ranked, BUCKETED):
        ranked = ranked_by_speed(pool)
    if objective.name == MEMORY and add_lean(pool, ranked):
        ranked = ranked_by_speed(pool)
    finalists: frozenset[int] = frozenset()
    if races.meter is not None:
        racing = [e.contender for e in ranked if e.contender is not None]
        finalists = meter_field(races.meter, racing, races.emit, races.ending.clock.until(FINAL_ENDS))
    figures: dict[int, float] = {}
    kept = []
    for entry in ranked:
        figure = objective.figure_of(entry.contender, entry.size_bytes)
        entry.measured(races.baseline)
        slow = not any_speed and entry.speedup is not None and entry.speedup.high < AS_FAST
        if figure is None or slow:
            why = "slower than the baseline, which only a latency limit would allow"
            entry.drop("lost", why if slow else f"{objective.title} unknown")
            races.emit(final(entry))
            continue
        figures[id(entry)] = figure
        kept.append(entry)
    return sorted(kept, key=lambda entry: (id(entry.contender) not in finalists, figures[id(entry)]))
