"""The races of a search: who of those that entered is best, in which order, by what the search is to reach."""

import time

from edgeopt.events import Progress
from edgeopt.hw.device import Device
from edgeopt.measure.contender import Contender
from edgeopt.measure.terms import FINAL, OPENING
from edgeopt.search import stopping
from edgeopt.search.aim import Aim
from edgeopt.search.making.gathering import Gathering
from edgeopt.search.objectives import Objective
from edgeopt.search.outcome import Candidate
from edgeopt.search.racing import race
from edgeopt.search.racing.aims import BUCKETED, Races, fast_enough, least
from edgeopt.search.racing.entrants import Entrants
from edgeopt.search.racing.loads import most
from edgeopt.search.racing.screen import Entry
from edgeopt.search.racing.tuning import tune


def raced(aim: Aim, races: Races, entrants: Entrants, gathering: Gathering, device: Device) -> list[Entry]:
    """Those that came in, best first, each with what it measured and why it is behind; no trial runs any more."""
    races.emit(Progress("making variants"))
    best: list[Entry] = []
    for part in gathering.parts():
        for ready in part:
            entrants.enter(ready)
        if races.ending.is_asked or (best := fast_enough(aim, races, entrants)):
            break
    gathering.close()
    if races.ending.is_asked and not best:
        races.ending.note("making variants", entrants.in_it)
    best = best or best_of(aim, races, entrants, device)
    _come_in(aim.objective, races.baseline, best, entrants.baseline)
    entrants.close()
    return best


def best_of(aim: Aim, races: Races, entrants: Entrants, device: Device) -> list[Entry]:
    """The entries still in it after opening, tuning and final, best first."""
    if aim.objective.figure is not None:
        return least(aim, races, entrants)
    if entrants.room is not None:
        return most(aim.limits, races, entrants, entrants.room)
    if best := fast_enough(aim, races, entrants):
        return best
    baseline, emit, clock, stop = races.baseline, races.emit, races.ending.clock, races.ending.stop
    if stop.is_set():
        soon_s = time.monotonic() + stopping.LAST_LOOK_S
        return race.race(baseline, entrants.entries, OPENING, emit, stopping.STOPPING, soon_s)
    until_s = clock.until(race.OPENING_ENDS)
    alive = race.race(baseline, entrants.entries, OPENING, emit, "racing", until_s, stop)
    if not stop.is_set():
        emit(Progress("tuning", "runtime options of the best candidates"))
        bucketed = entrants.add_bucketed(alive, BUCKETED)
        alive = [*tune(races, entrants, alive, clock.until(race.TUNING_ENDS), device), *bucketed]
    best = race.race(baseline, alive, FINAL, emit, "final", clock.until(race.FINAL_ENDS), stop)
    if stop.is_set():
        races.ending.note("racing")
    return best


def _come_in(objective: Objective, baseline: Contender, best: list[Entry], source: Candidate) -> None:
    """Every entry keeps what it measured and why it is behind, then its trial ends."""
    speeds, shown = race.relative_speeds(baseline, best), objective.shown
    least: float | None = None
    for place, entry in enumerate(best):
        entry.measured(baseline)
        share = speeds[id(entry)] / max(speeds[id(best[0])], 1e-9)
        figure = objective.figure_of(entry.contender, entry.size_bytes)
        entry.fall_behind(best[0].candidate, share)
        if place == 0:
            least = figure
            first = "best in the race, but not proved better than the baseline"
            entry.leave("lost", "the baseline" if entry.candidate == source else first)
        elif figure is not None:
            than = f"{best[0].candidate.name} has {shown(least or 0.0)}"
            entry.leave("lost", f"{objective.title} {shown(figure)}, where {than}")
