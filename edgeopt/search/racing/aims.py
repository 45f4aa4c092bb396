"""What ends a search other than its races: enough speed, or an objective that no race decides."""

from dataclasses import dataclass

from edgeopt.events import Emit
from edgeopt.measure.contender import Contender
from edgeopt.measure.instruments.energy import EnergyMeter
from edgeopt.measure.rounds import speedup
from edgeopt.measure.terms import FIGURES
from edgeopt.search.aim import Aim
from edgeopt.search.racing import race
from edgeopt.search.racing.energy import meter_field
from edgeopt.search.racing.entrants import Entrants
from edgeopt.search.racing.screen import Entry
from edgeopt.search.racing.standings import final
from edgeopt.search.stopping import Ending

BUCKETED = 2
"""The number of best candidates for which a program per size is tried."""
# Slower than the baseline by less than this may be chance.
AS_FAST = 0.97


@dataclass(frozen=True, slots=True)
class Races:
    """What all races of a search go by."""

    baseline: Contender
    ending: Ending
    emit: Emit
    meter: EnergyMeter | None = None
    """Of a search for the least energy."""


def fast_enough(aim: Aim, races: Races, entrants: Entrants) -> list[Entry]:
    """All candidates, best first, if one is reliably as fast as asked for; otherwise nothing."""
    wanted = aim.target_speedup
    if wanted is None or aim.objective.figure is not None:
        return []
    best = ranked_by_speed(races, entrants)
    contender = best[0].contender if best else None
    enough = contender is not None and speedup(races.baseline, contender).low >= wanted
    return best if enough else []


def ranked_by_speed(races: Races, entrants: Entrants) -> list[Entry]:
    """Everybody who is in, after some rounds; nobody leaves."""
    until_s = races.ending.clock.until(race.OPENING_ENDS)
    return race.race(races.baseline, entrants.entries, FIGURES, races.emit, "racing", until_s)


def least(aim: Aim, races: Races, entrants: Entrants) -> list[Entry]:
    """Those that are not slower than the baseline, the one with the least of the objective first."""
    objective, any_speed = aim.objective, aim.limits.latency_ms is not None
    ranked = ranked_by_speed(races, entrants)
    if objective.of_time and entrants.add_bucketed(ranked, BUCKETED):
        ranked = ranked_by_speed(races, entrants)
    finalists: frozenset[int] = frozenset()
    if races.meter is not None:
        racing = [e.contender for e in ranked if e.contender is not None]
        finalists = meter_field(races.meter, racing, races.emit, races.ending.clock.until(race.FINAL_ENDS))
    figures: dict[int, float] = {}
    kept = []
    for entry in ranked:
        figure = objective.figure_of(entry.contender, entry.size_bytes)
        entry.measured(races.baseline)
        slow = not any_speed and entry.speedup is not None and entry.speedup.high < AS_FAST
        if figure is None or slow:
            why = "slower than the baseline, which only a latency limit would allow"
            entry.leave("lost", why if slow else f"{objective.title} unknown")
            races.emit(final(entry))
            continue
        figures[id(entry)] = figure
        kept.append(entry)
    return sorted(kept, key=lambda entry: (id(entry.contender) not in finalists, figures[id(entry)]))
