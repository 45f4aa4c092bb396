"""What ends a search other than its races: enough speed, or an objective that no race decides."""

from edgeopt.bench.contender import Contender
from edgeopt.bench.rounds import speedup
from edgeopt.search.field import Field
from edgeopt.search.prepare import Search
from edgeopt.search.racing import race
from edgeopt.search.racing.energy import meter_field
from edgeopt.search.racing.race import Heat
from edgeopt.search.racing.screen import Entry
from edgeopt.search.racing.standings import final

# Enough rounds for an interval; nobody leaves, as what comes later may be slower still.
_LOOK = (Heat(6, 0.0),)
BUCKETED = 2
"""A program for each size is tried with so many of the best that can have one."""
# So much slower than the baseline may be chance.
AS_FAST = 0.97


def fast_enough(search: Search, field: Field) -> list[Entry]:
    """All that are in, best first, where one is surely as many times as fast as asked for; else nothing."""
    wanted = search.settings.target_speedup
    if wanted is None or search.objective.figure is not None:
        return []
    best = ranked_by_speed(search, field)
    contender = best[0].contender if best else None
    enough = contender is not None and speedup(search.baseline_contender, contender).low >= wanted
    return best if enough else []


def ranked_by_speed(search: Search, field: Field) -> list[Entry]:
    """Everybody who is in, after some rounds; nobody leaves."""
    until = search.until(race.OPENING_ENDS)
    return race.race(search.baseline_contender, field.entries, _LOOK, search.emit, "racing", until)


def least(search: Search, field: Field) -> list[Entry]:
    """Those that are not slower than the baseline, the one with the least of the objective first."""
    baseline, allowed = search.baseline_contender, search.settings.limits.latency_ms
    figures: dict[int, float] = {}
    kept = []
    ranked = ranked_by_speed(search, field)
    if search.objective.of_time and field.add_bucketed(ranked, BUCKETED):
        ranked = ranked_by_speed(search, field)
    finalists: frozenset[int] = frozenset()
    if search.meter is not None:
        racing = [e.contender for e in ranked if e.contender is not None]
        finalists = meter_field(search, racing, search.until(race.FINAL_ENDS))
    for entry in ranked:
        figure = figure_of(search, entry.contender, entry.size_bytes)
        entry.measured(baseline)
        slow = allowed is None and entry.speedup is not None and entry.speedup.high < AS_FAST
        if figure is None or slow:
            why = "slower than the baseline, and no limit of latency allows that"
            entry.leave("lost", why if slow else f"its {search.objective.title} is not known here")
            search.emit(final(entry))
            continue
        figures[id(entry)] = figure
        kept.append(entry)
    return sorted(kept, key=lambda entry: (id(entry.contender) not in finalists, figures[id(entry)]))


def figure_of(search: Search, contender: Contender | None, size_bytes: int | None) -> float | None:
    """Of the objective, of one that runs; None where contests decide."""
    figure = search.objective.figure
    return None if figure is None or contender is None else figure(contender, size_bytes or 0)
