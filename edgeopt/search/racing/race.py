"""The race: interleaved contests of the candidates that passed screening; slow ones leave early."""

import threading
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgeopt.errors import TrialError
from edgeopt.events import Emit, Progress
from edgeopt.measure.contender import Contender
from edgeopt.measure.rounds import run_slices, slice_ms, speedup
from edgeopt.measure.terms import Turns
from edgeopt.search.making.recipes import place_of
from edgeopt.search.outcome import Candidate
from edgeopt.search.racing.screen import Entry
from edgeopt.search.racing.standings import Ticker, final

# Shares of the time before the proof at which each phase ends.
OPENING_ENDS, TUNING_ENDS, FINAL_ENDS = 0.79, 0.88, 1.0
# Two candidates this close are equal for every purpose; the more accurate one is then the better choice.
_SAME_SPEED = 1.01
# One thread leaves the other cores to others, and does not depend on how the system places several.
SPARE_CORES = 1.08
_ENOUGH_TO_TRIM = 6
HINT = "Measure the model alone with `edgeopt bench`; the device may be short of memory."


def race(
    baseline: Contender,
    entries: Sequence[Entry],
    turns: Turns,
    emit: Emit,
    phase: str,
    deadline: float,
    stop: threading.Event | None = None,
) -> list[Entry]:
    """Those who are far behind at a look leave, with a reason; returns the entries still alive, best first.

    `stop` ends it as the deadline does; two rounds are run in any case, for without them there would be nothing to
    choose by.
    """

    def is_over() -> bool:
        return time.monotonic() >= deadline or (stop is not None and stop.is_set())

    alive = [e for e in entries if e.contender is not None]
    field = [baseline, *_contenders(alive)]
    if is_over() and all(contender.slices_ms for contender in field[1:]):
        return ranked(baseline, alive)
    # All who compare must have run the same rounds; what earlier stages measured is not theirs.
    for contender in field:
        contender.slices_ms.clear()
    ticker, span_ms = Ticker(emit), _span_ms(field)
    for each in run_slices(field, turns, lambda: span_ms, is_late=is_over):  # noqa: B023 - of this round
        if baseline.failure:
            raise TrialError(f"The source model {baseline.failure.rstrip('.')} while it was measured.", HINT)
        alive = _without_the_fallen(alive, emit)
        _tell(emit, phase, each.done, turns.most, baseline, alive, deadline)
        ticker.tell(baseline, alive)
        if each.is_look:
            alive = _keep(baseline, alive, turns.keeps[turns.looks.index(each.done)], emit)
            if len(alive) == 1:
                break
        field[1:] = _contenders(alive)
        span_ms = _span_ms(field)
    return ranked(baseline, alive)


def _contenders(entries: Sequence[Entry]) -> list[Contender]:
    return [entry.contender for entry in entries if entry.contender is not None]


def ranked(baseline: Contender, entries: Sequence[Entry]) -> list[Entry]:
    """Fastest first; among those within chance of the fastest, the most accurate and then the simplest leads."""
    speeds = relative_speeds(baseline, entries)
    order = sorted(entries, key=lambda e: speeds[id(e)], reverse=True)
    equals = [e for e in order if speeds[id(e)] * margin(e) >= speeds[id(order[0])]]
    if equals:
        first = min(equals, key=_plainness)
        order.remove(first)
        order.insert(0, first)
    return order


def margin(entry: Entry) -> float:
    return SPARE_CORES if one_thread(entry.candidate) else _SAME_SPEED


def _plainness(entry: Entry) -> tuple[int, bool, float, int, int]:
    """Few samples under way, one thread, accurate, early recipes, few options: each before its opposite."""
    candidate = entry.candidate
    under_way, several = candidate.calls.callers * candidate.calls.batch, not one_thread(entry.candidate)
    place = place_of(candidate.variant)
    return under_way, several, -(entry.accuracy_db or 0.0), place, len(candidate.options)


def one_thread(candidate: Candidate) -> bool:
    return candidate.options.get("threads") == 1 and candidate.calls.callers == 1


def relative_speeds(baseline: Contender, entries: Sequence[Entry]) -> dict[int, float]:
    """The speed of each entry (by `id`) against the middle of the field, round by round.

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
    """The mean of each row without its extremes.

    A median would not see that a candidate runs at one of two speeds: two threads of a small model do, as the
    system happens to place them, and which one a user meets is chance.
    """
    if values.shape[1] >= _ENOUGH_TO_TRIM:
        values = np.sort(values, axis=1)[:, 1:-1]
    return np.asarray(values.mean(axis=1))


def _keep(baseline: Contender, alive: list[Entry], share: float, emit: Emit) -> list[Entry]:
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


def _without_the_fallen(alive: list[Entry], emit: Emit) -> list[Entry]:
    for entry in alive:
        if entry.contender is not None and entry.contender.failure:
            entry.leave("failed", entry.contender.failure)
            emit(final(entry))
    return [e for e in alive if e.contender is not None]


def _span_ms(field: Sequence[Contender]) -> float:
    """Slices of one length for all, long enough for the slower half."""
    known = [contender.run_ms for contender in field if contender.slices_ms]
    return slice_ms(float(np.median(known)) if known else field[0].loaded.first_run_ms)


def _tell(
    emit: Emit, phase: str, done: int, total: int, baseline: Contender, alive: list[Entry], deadline: float
) -> None:
    best = ranked(baseline, alive)[0] if alive else None
    told = (
        f"{best.candidate.name} {speedup(baseline, best.contender).median:.2f}x"
        if best and best.contender
        else None
    )
    left = max(0.0, deadline - time.monotonic())
    emit(Progress(phase, f"{len(alive)} candidates left", done, total, told, left))
