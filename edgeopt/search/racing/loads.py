"""A search for throughput: under which load plain ONNX Runtime gives most, and who gives more under which."""

import time
from contextlib import ExitStack

import msgspec
import numpy as np

from edgeopt.bench.calls import ONE, Calls
from edgeopt.bench.contender import Contender, enter, save_outputs
from edgeopt.bench.messages import Load
from edgeopt.bench.rounds import latency_ms, run_rounds, slice_ms
from edgeopt.bench.trial import read_outputs
from edgeopt.errors import TrialError
from edgeopt.events import Log, Progress
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.search import stopping
from edgeopt.search.field import Field
from edgeopt.search.limits import OVER, excess
from edgeopt.search.outcome import Candidate
from edgeopt.search.prepare import Search
from edgeopt.search.racing import race
from edgeopt.search.racing.callers import called, next_batches, other_callers, room_for, to_try_on
from edgeopt.search.racing.screen import Entry
from edgeopt.search.racing.standings import final

ALIKE_DB = 100.0
"""Rows of a batch that are so much alike to single runs do not depend on each other: the rest is rounding."""
_SETTLING_ROUNDS, _SETTLED = 4, 0.12
_TUNED = 2
_BATCH = 8


def settle(search: Search, stack: ExitStack) -> None:
    """Sets the room of the search, and as its baseline the load in which plain defaults give most."""
    if not search.objective.by_sample:
        return
    search.emit(Progress("preparing", "the load under which the baseline gives most"))
    search.course.by_sample = True
    why = no_batches(search)
    if why:
        search.emit(Log("info", f"No batches are tried: {why}."))
    limits, cpu = search.device.limits, search.device.cpu
    room = search.room = room_for(max(1, min(limits.usable_cores, cpu.logical_cores)), not why)
    alone_ms = latency_ms(search.baseline_contender)
    field = [search.baseline_contender, *_further(search, to_try_on(room, alone_ms), stack)]
    for each in field:
        each.by_sample = True
    span_ms = slice_ms(alone_ms)
    run_rounds(field, 1, span_ms)
    for each in field:
        each.slices_ms.clear()
    for number in range(_SETTLING_ROUNDS):
        if number == 0 or time.monotonic() < search.until(_SETTLED):
            run_rounds(field, 1, span_ms, first=number)
    ran = [each for each in field if each.failure is None and each.slices_ms]
    if not ran:
        raise TrialError(
            f"The source model {(field[0].failure or '').rstrip('.')} while it was measured.", race.HINT
        )
    quick = [each for each in ran if not excess(search.settings.limits, latency_ms=each.run_ms)]
    best = min(quick, key=_sample_ms) if quick else min(ran, key=lambda each: each.run_ms)
    for each in field:
        if each is not best:
            each.close()
    best.slices_ms.clear()
    search.baseline_contender = best
    search.baseline = msgspec.structs.replace(search.baseline, calls=Calls(best.concurrency, best.batch))


def _sample_ms(contender: Contender) -> float:
    return float(np.median(contender.slices_ms))


def _further(search: Search, ways: list[Calls], stack: ExitStack) -> list[Contender]:
    """The source in plain defaults, called in further ways; without those that it does not bear."""
    found, course = [], search.course
    for calls in ways:
        if calls == ONE:
            continue
        samples = course.host.put(course.samples_path)
        load = Load(
            search.baseline.backend, course.host.put(search.settings.model), {}, samples, batch=calls.batch
        )
        try:
            found.append(enter(course.host, f"baseline, {calls}", load, concurrency=calls.callers))
        except TrialError:
            continue
        stack.callback(found[-1].close)
    return found


def no_batches(search: Search) -> str:
    """Why samples cannot be run together, or their answers would depend on each other; empty where they can."""
    closed = next((i for i in search.facts.inputs if not i.shape or isinstance(i.shape[0], int)), None)
    if closed is not None:
        return f"the first axis of the model's input '{closed.name}' is not open"
    if any(sizes[:1] != [1] for sizes in search.samples.shapes().values()):
        return "the samples are batches already"
    if search.samples.sizes:
        return "the samples differ in size"
    course = search.course
    first, count = course.split.check_first, course.split.check_count
    if count < 2:
        return "one sample alone cannot show that rows do not depend on each other"
    file, batch = course.folder / "outputs.npz", min(count, _BATCH)
    contender = search.baseline_contender
    try:
        save_outputs(contender, first, count, str(file), contender.patience_s(count), batch)
    except TrialError as error:
        return f"run together, the model {error.message.rstrip('.')}"
    alike = compare_outputs(course.reference, read_outputs(file))
    if alike.problem or alike.snr_db < ALIKE_DB:
        said = alike.problem or f"{alike.snr_db:.0f} dB"
        return f"together, samples are not answered as they are one by one ({said}; {ALIKE_DB:g} dB are needed)"
    return ""


def most(search: Search, field: Field) -> list[Entry]:
    """Opening, tuning of callers and batches, final; the entries still in it, the most throughput first."""
    room = search.room
    assert room is not None  # noqa: S101 - settled before
    alive = _raced(search, field.entries, race.OPENING, "racing", race.OPENING_ENDS)
    late = search.until(race.TUNING_ENDS)
    if not alive:
        # One caller has its answer sooner.
        slow = [e.candidate for e in field.entries if e.status == OVER and e.candidate.calls != ONE]
        alive = _added(field, [called(one, ONE, room) for one in slow[:_TUNED]], late)
    search.emit(Progress("tuning", "callers and batches of the best candidates"))
    for entry in alive[:_TUNED]:
        wanted = [*other_callers(entry.candidate, room), *next_batches(entry.candidate, room)]
        alive += _added(field, wanted, late)
    alive = _raced(search, alive, race.TUNING, "tuning", race.TUNING_ENDS)
    while alive and time.monotonic() < late:
        further = _added(field, next_batches(alive[0].candidate, room), late)
        if not further:
            break
        alive = _raced(search, [*alive, *further], race.TUNING, "tuning", race.TUNING_ENDS)
    best = _raced(search, alive, race.FINAL, "final", race.FINAL_ENDS)
    if search.stop.is_set():
        stopping.cut_short(search, "racing")
    return best


def _added(field: Field, wanted: list[Candidate], late: float) -> list[Entry]:
    """Those that are new, as long as there is time and room for them."""
    found = []
    for candidate in wanted:
        if candidate in field.candidates or field.full or time.monotonic() >= late or field.search.stop.is_set():
            continue
        entry = field.add(candidate)
        if entry.contender is not None:
            found.append(entry)
    return found


def _raced(
    search: Search, entries: list[Entry], heats: tuple[race.Heat, ...], phase: str, ends: float
) -> list[Entry]:
    """As all races, and then without those that take too long for an answer."""
    baseline = search.baseline_contender
    alive = race.race(baseline, entries, heats, search.emit, phase, search.until(ends), search.stop)
    kept = []
    for entry in alive:
        run_ms = entry.contender.run_ms if entry.contender is not None else None
        too_long = excess(search.settings.limits, latency_ms=run_ms)
        if not too_long:
            kept.append(entry)
            continue
        entry.measured(baseline)
        entry.leave(OVER, f"{entry.candidate.calls}: {too_long}")
        search.emit(final(entry))
    return kept
