import math

import pytest

from edgeopt.events import Standing
from edgeopt.search.making.gathering import Ready
from edgeopt.search.making.messages import PLANNED, Planned
from edgeopt.search.objectives import OVER, Limits
from edgeopt.search.outcome import Candidate, VariantReport


def timed(latency_ms):
    return Candidate("source", "null", {"latency_ms": latency_ms})


@pytest.fixture
def ending(track):
    return track.ending()


def test_who_is_good_takes_part_and_whoever_watches_is_told(track, ending):
    entrants = track.entrants(ending)
    baseline, other = entrants.add(Candidate("source", "null")), entrants.add(timed(2.0))
    assert (baseline.accuracy_db, other.size_bytes, entrants.in_it) == (200, 100, 2)
    assert [event.status for event in track.said if isinstance(event, Standing)] == ["racing", "racing"]
    entrants.close()
    assert entrants.candidates == [baseline.candidate, other.candidate]


def test_there_is_something_to_hand_out_once_somebody_but_the_baseline_takes_part(track, ending):
    entrants = track.entrants(ending)
    entrants.add(Candidate("source", "null"))
    assert not ending.stop.ready
    entrants.add(timed(2.0))
    assert ending.stop.ready


def test_what_takes_too_much_is_out_at_once(track, ending):
    entry = track.entrants(ending, Limits(size_bytes=99)).add(timed(2.0))
    assert (entry.contender, entry.status) == (None, OVER)
    assert "its files have" in entry.reason
    assert track.said[-1].status == OVER


def test_a_plan_takes_part_with_its_own_options_unless_the_search_was_stopped(track, ending):
    entrants = track.entrants(ending, most=1)
    path, report = track.null_model("planned"), VariantReport(PLANNED, "a plan", 7, backends=("null",))
    ready = Ready(PLANNED, ("null",), Planned("null", {"latency_ms": 1.0}, str(path), (), {}))
    entrants._variants.enter(report, path, ready.planned)
    assert not entrants.full
    entrants.enter(ready)
    assert [entry.candidate.name for entry in entrants.entries] == ["planned · null · latency_ms=1.0"]
    assert entrants.full
    ending.stop.set()
    entrants.enter(ready)
    assert len(entrants.entries) == 1


def test_how_fast_floats_are_is_told_of_those_with_the_same_options(track, ending):
    entrants = track.entrants(ending)
    entrants.add(timed(5.0))
    found_ms = entrants.floats_ms(Candidate(PLANNED, "null", {"latency_ms": 5.0}))
    assert 4.9 < found_ms < math.inf
    assert entrants.floats_ms(Candidate(PLANNED, "null")) == math.inf
