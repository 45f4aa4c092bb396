"""`edgeopt.optimize`: from a model and a device to a bundle that was proved, or "keep what you have"."""

import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from edgeopt.backends.base import Array
from edgeopt.bench.processes.workspace import WORK, workspace
from edgeopt.bundle.write import check_target
from edgeopt.data import write_archive
from edgeopt.events import Emit, Progress, ignore
from edgeopt.judging.budgets import floor_from
from edgeopt.search import race
from edgeopt.search.deliver import deliver
from edgeopt.search.field import Field
from edgeopt.search.outcome import Outcome
from edgeopt.search.prepare import Search, prepare
from edgeopt.search.screen import Entry
from edgeopt.search.settings import Settings, checked_limit
from edgeopt.search.space import neighbours

# Shares of the time limit at which each phase ends; what is left proves the bundle.
_OPENING_ENDS = 0.75
_TUNING_ENDS = 0.88
_FINAL_ENDS = 0.95
# Runtime options are tuned for so many of the best; the others are too far behind to catch up by options alone.
_TUNED = 2


def optimize(
    model: str | Path,
    out: str | Path,
    *,
    data: str | Path | Mapping[str, Array] | None = None,
    floor: str | float = "transparent",
    time_limit_s: float | None = None,
    target: str | None = None,
    profile: str | Path | None = None,
    emit: Emit = ignore,
) -> Outcome:
    """Finds the fastest deployment of a model on this device inside the accuracy floor, and writes it as a bundle.

    `data` is a file, a folder, or arrays by input name with samples along the first axis.
    """
    with workspace(WORK) as folder:
        if isinstance(data, Mapping):
            data = _as_file(data, folder)
        settings = Settings(
            model=Path(model),
            # One spelling for all that follows: a path with ".." in it may lead elsewhere once folders exist.
            out=Path(os.path.abspath(out)),  # noqa: PTH100 - `resolve` would follow a link at the end too
            data=Path(data) if data is not None else None,
            floor_db=floor_from(str(floor)),
            time_limit_s=checked_limit(time_limit_s),
            target=target,
            profile=Path(profile) if profile is not None else None,
        )
        return run(settings, folder, emit)


def run(settings: Settings, folder: Path, emit: Emit) -> Outcome:
    """One search, in a folder of its own."""
    begin = time.monotonic()
    check_target(settings.out, [settings.model, *([settings.data] if settings.data else [])])
    with ExitStack() as stack:
        search = prepare(settings, folder, stack, emit)
        field = Field(search)
        stack.callback(field.close)
        emit(Progress("making variants"))
        field.gather()
        search.maker.close()
        best = _race(search, field)
        return deliver(search, field, best, begin)


def _race(search: Search, field: Field) -> list[Entry]:
    """Opening, tuning, final; the entries still in it, best first."""
    baseline = search.baseline_contender
    alive = race.race(baseline, field.entries, race.OPENING, search.emit, "racing", search.until(_OPENING_ENDS))
    search.emit(Progress("tuning", "runtime options of the best candidates"))
    for entry in alive[:_TUNED]:
        for candidate in neighbours(entry.candidate, field.space):
            late = time.monotonic() >= search.until(_TUNING_ENDS)
            if candidate not in field.candidates and not late and not field.full:
                alive.append(field.add(candidate))
    alive = race.race(baseline, alive, race.TUNING, search.emit, "tuning", search.until(_TUNING_ENDS))
    return race.race(baseline, alive, race.FINAL, search.emit, "final", search.until(_FINAL_ENDS))


def _as_file(arrays: Mapping[str, Array], folder: Path) -> Path:
    file = folder / "data.npz"
    write_archive(file, arrays)
    return file
