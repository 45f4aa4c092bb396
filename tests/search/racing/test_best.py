from types import SimpleNamespace

import pytest

from edgeopt.events import Progress
from edgeopt.search.aim import Aim
from edgeopt.search.objectives import Limits, objective_named
from edgeopt.search.outcome import Candidate
from edgeopt.search.racing.race import Races
from edgeopt.search.racing.tuning import raced

SLOW, QUICK = ({"latency_ms": ms} for ms in (60.0, 0.5))


@pytest.fixture
def course(track):
    """What is raced: the source, and two that take longer and less long; with no time left but for two rounds."""

    def run(objective="latency", target_speedup=None, limit_s=0.0, stopped=False):
        ending = track.ending(limit_s)
        entrants = track.entrants(ending)
        parts = [
            [Candidate("source", "null"), Candidate("source", "null", SLOW)],
            [Candidate("source", "null", QUICK)],
        ]
        entrants.enter = entrants.add
        gathering = SimpleNamespace(parts=lambda: iter(parts), close=lambda: track.said.append("made"))
        if stopped:
            ending.stop.set()
        aim = Aim(objective_named(objective), Limits(), target_speedup)
        races = Races(track.baseline, ending, track.said.append)
        best = raced(aim, races, entrants, gathering, None)
        return SimpleNamespace(best=best, entrants=entrants, ending=ending, said=track.said)

    return run


def test_the_fastest_leads_and_the_others_say_by_how_much_they_are_behind(course):
    found = course()
    assert found.best[0].candidate.options == QUICK
    assert found.best[0].reason == "best in the race, but not proved better than the baseline"
    assert found.best[0].speedup.median > 1
    slow = found.entrants.entries[1]
    assert slow.reason.endswith("% slower than source · null · latency_ms=0.5")
    assert slow.of_best == slow.lead.share < 0.5
    # Nothing runs any more, and no variant is being made.
    assert all(entry.contender is None for entry in found.entrants.entries)
    assert "made" in found.said


def test_enough_speed_ends_it_before_all_are_made(course):
    found = course(target_speedup=0.01)
    assert len(found.entrants.entries) == 2
    assert {entry.status for entry in found.best} == {"lost"}


def test_another_objective_ranks_by_its_figure(course):
    found = course("first-answer")
    assert found.best
    assert all("time to load and run once" in entry.reason for entry in found.best[1:])


def test_when_it_is_stopped_those_who_are_in_race_shortly(course):
    found = course(stopped=True, limit_s=60.0)
    assert len(found.entrants.entries) == 2
    assert found.best
    assert "while making variants" in found.ending.cut_short
    assert "stopping" in {event.phase for event in found.said if isinstance(event, Progress)}
