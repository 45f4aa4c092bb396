"""`edgeopt.optimize`: from a model and a device to a bundle that was proved, or "keep what you have"."""

import os
import time
from contextlib import ExitStack
from pathlib import Path

from edgeopt.bench.processes.workspace import WORK, workspace
from edgeopt.bundle.write import check_target
from edgeopt.data.given import Data, as_file
from edgeopt.events import Emit, Progress, ignore
from edgeopt.judging.goals import goal_from
from edgeopt.search import race
from edgeopt.search.aims import fast_enough, least
from edgeopt.search.deliver import deliver
from edgeopt.search.field import Field
from edgeopt.search.limits import Limits
from edgeopt.search.objectives import LATENCY, objective_named
from edgeopt.search.outcome import Outcome
from edgeopt.search.pick import pick as deliver_picked
from edgeopt.search.prepare import Search, prepare
from edgeopt.search.remembered import Memory
from edgeopt.search.screen import Entry
from edgeopt.search.settings import Settings, checked_limit, checked_target
from edgeopt.search.space import neighbours

# Shares of the time limit at which each phase ends; what is left proves the bundle.
_OPENING_ENDS = 0.68
_TUNING_ENDS = 0.8
_FINAL_ENDS = 0.86
# Runtime options are tuned for so many of the best; the others are too far behind to catch up by options alone.
_TUNED = 2


def optimize(
    model: str | Path,
    out: str | Path,
    *,
    data: Data | None = None,
    floor: str | float | None = None,
    metric: str | None = None,
    max_drop: str | float | None = None,
    labels: str = "",
    objective: str = LATENCY,
    limits: Limits | None = None,
    baseline: str | Path | None = None,
    target_speedup: float | None = None,
    time_limit_s: float | None = None,
    target: str | None = None,
    profile: str | Path | None = None,
    single_file: bool = False,
    pick: str = "",
    fresh: bool = False,
    emit: Emit = ignore,
) -> Outcome:
    """Finds the fastest deployment of a model on this device inside the accuracy floor, and writes it as a bundle.

    `data` is a file, a folder, arrays by input name with samples along the first axis, or any iterable of feeds.
    With `single_file` the bundle is one file instead of a folder. A search that was done before is answered from
    the cache, unless it is to be `fresh`.
    """
    with workspace(WORK) as folder:
        settings = Settings(
            model=Path(model),
            # One spelling for all that follows: a path with ".." in it may lead elsewhere once folders exist.
            out=Path(os.path.abspath(out)),  # noqa: PTH100 - `resolve` would follow a link at the end too
            data=as_file(data, folder),
            goal=goal_from(metric, _text(floor), _text(max_drop)),
            labels=labels,
            objective=objective_named(objective).name,
            limits=limits or Limits(),
            baseline=Path(baseline) if baseline is not None else None,
            target_speedup=checked_target(target_speedup),
            time_limit_s=checked_limit(time_limit_s),
            target=target,
            profile=Path(profile) if profile is not None else None,
            single_file=single_file,
            pick=pick,
            fresh=fresh,
        )
        return run(settings, folder, emit)


def _text(value: str | float | None) -> str | None:
    return None if value is None else str(value)


def run(settings: Settings, folder: Path, emit: Emit) -> Outcome:
    """One search, in a folder of its own."""
    begin = time.monotonic()
    check_target(settings.out, [settings.model, *([settings.data] if settings.data else [])])
    memory = Memory(settings, emit)
    if settings.pick:
        return deliver_picked(settings, folder, memory, emit)
    if (known := memory.recall()) is not None:
        return known
    with ExitStack() as stack:
        search = prepare(settings, folder, stack, emit)
        search.memory, memory.limit_s = memory, search.limit_s
        field = Field(search)
        stack.callback(field.close)
        emit(Progress("making variants"))
        best: list[Entry] = []
        for _ in field.gather():
            if best := fast_enough(search, field):
                break
        search.maker.close()
        best = best or _race(search, field)
        outcome = deliver(search, field, best, begin)
    memory.keep(outcome)
    return outcome


def _race(search: Search, field: Field) -> list[Entry]:
    """Opening, tuning, final; the entries still in it, best first."""
    baseline = search.baseline_contender
    if search.objective.figure is not None:
        return least(search, field)
    if best := fast_enough(search, field):
        return best
    alive = race.race(baseline, field.entries, race.OPENING, search.emit, "racing", search.until(_OPENING_ENDS))
    search.emit(Progress("tuning", "runtime options of the best candidates"))
    for entry in alive[:_TUNED]:
        for candidate in neighbours(entry.candidate, field.space):
            late = time.monotonic() >= search.until(_TUNING_ENDS)
            if candidate not in field.candidates and not late and not field.full:
                alive.append(field.add(candidate))
    alive = race.race(baseline, alive, race.TUNING, search.emit, "tuning", search.until(_TUNING_ENDS))
    return race.race(baseline, alive, race.FINAL, search.emit, "final", search.until(_FINAL_ENDS))
