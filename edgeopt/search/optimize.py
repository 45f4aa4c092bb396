"""`edgeopt.optimize`: from a model and a device to a bundle that was proved, or "keep what you have"."""

import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Unpack

import msgspec

from edgeopt.bundle.write import check_target
from edgeopt.data.given import as_file
from edgeopt.events import Emit, Progress, ignore
from edgeopt.keywords import read, takes
from edgeopt.search import stopping
from edgeopt.search.delivering.deliver import deliver
from edgeopt.search.delivering.pick import pick as deliver_picked
from edgeopt.search.field import Field
from edgeopt.search.outcome import Outcome
from edgeopt.search.prepare import Search, prepare
from edgeopt.search.racing import race
from edgeopt.search.racing.aims import BUCKETED, fast_enough, least
from edgeopt.search.racing.energy import open_meter
from edgeopt.search.racing.loads import most, settle
from edgeopt.search.racing.screen import Entry
from edgeopt.search.racing.tuning import tune
from edgeopt.search.remembered import Memory
from edgeopt.search.settings import Settings, Wishes, check, inputs_of
from edgeopt.workspace import WORK, workspace


@takes(Settings, Wishes)
def optimize(
    model: str | Path,
    out: str | Path,
    *,
    stop: threading.Event | None = None,
    emit: Emit = ignore,
    **wishes: Unpack[Wishes],
) -> Outcome:
    """Finds the fastest deployment of a model on this device inside the accuracy floor, and writes it as a bundle.

    `data` is a file, a folder, arrays by input name with samples along the first axis, or any iterable of feeds.
    A search that was done before is answered from the cache, unless it is to be `fresh`. Once another thread sets
    `stop`, what is best so far is proved shortly and written; StoppedError where nothing can be proved faster yet.
    """
    with workspace(WORK) as folder:
        given = {**wishes, "model": model, "out": out, "data": as_file(wishes.get("data"), folder)}
        return run(read(Settings, given), folder, emit, stop or threading.Event())


def asked(settings: Settings, emit: Emit, stop: threading.Event) -> Outcome:
    """The same of a request that is put together."""
    with workspace(WORK) as folder:
        return run(settings, folder, emit, stop)


def run(settings: Settings, folder: Path, emit: Emit, stop: threading.Event) -> Outcome:
    """One search, in a folder of its own."""
    begin = time.monotonic()
    check(settings)
    # One spelling for all that follows: a path with ".." in it may lead elsewhere once folders exist.
    out = Path(os.path.abspath(settings.out))  # noqa: PTH100 - `resolve` would follow a link at the end too
    settings = msgspec.structs.replace(settings, out=out)
    check_target(settings.out, [*inputs_of(settings)])
    memory = Memory(settings, emit)
    if settings.pick:
        return deliver_picked(settings, folder, memory, emit)
    if (known := memory.recall()) is not None:
        return known
    with ExitStack() as stack:
        search = prepare(settings, folder, stack, emit)
        search.memory, memory.limit_s, search.stop = memory, search.limit_s, stop
        stopping.check(search, "reading the model")
        open_meter(search, stack)
        settle(search, stack)
        field = Field(search)
        stack.callback(field.close)
        emit(Progress("making variants"))
        best: list[Entry] = []
        for _ in field.gather():
            if stop.is_set() or (best := fast_enough(search, field)):
                break
        search.maker.close()
        if stop.is_set() and not best:
            stopping.cut_short(search, "making variants", sum(e.contender is not None for e in field.entries))
        best = best or _race(search, field)
        outcome = deliver(search, field, best, begin)
    if not outcome.cut_short:
        memory.keep(outcome)
    return outcome


def _race(search: Search, field: Field) -> list[Entry]:
    """Opening, tuning, final; the entries still in it, best first."""
    baseline = search.baseline_contender
    if search.objective.figure is not None:
        return least(search, field)
    if search.room is not None:
        return most(search, field)
    if best := fast_enough(search, field):
        return best
    if search.stop.is_set():
        soon = time.monotonic() + stopping.LAST_LOOK_S
        return race.race(baseline, field.entries, race.OPENING, search.emit, stopping.STOPPING, soon)
    stop = search.stop
    until = search.until(race.OPENING_ENDS)
    alive = race.race(baseline, field.entries, race.OPENING, search.emit, "racing", until, stop)
    if not stop.is_set():
        search.emit(Progress("tuning", "runtime options of the best candidates"))
        bucketed = field.add_bucketed(alive, BUCKETED)
        alive = [*tune(search, field, alive, search.until(race.TUNING_ENDS)), *bucketed]
    best = race.race(baseline, alive, race.FINAL, search.emit, "final", search.until(race.FINAL_ENDS), stop)
    if stop.is_set():
        stopping.cut_short(search, "racing")
    return best
