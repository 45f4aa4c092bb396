import math
import time
from types import SimpleNamespace

import pytest

from edgeopt.events import Log, Progress
from edgeopt.hw.probe import probe
from edgeopt.measure.terms import Turns
from edgeopt.search.outcome import Candidate
from edgeopt.search.racing.entrants import screen
from edgeopt.search.racing.race import Races, race
from edgeopt.search.racing.space import Starts
from edgeopt.search.racing.tuning import tune
from edgeopt.search.stopping import Clock, Ending, Stop

# How many times as long a run takes by each choice, None: it fails; the first of each is where candidates start.
LONGER = {"spinning": {True: 1.0, False: 0.6}, "level": {"all": 1.0, "layout": None, "basic": 0.7}}


@pytest.fixture
def tuned(track):
    """A field of one candidate on the null backend, whose runs take as long as its options say."""
    said = []

    def add(candidate):
        longer = [LONGER[option][value] for option, value in candidate.options.items()]
        how = {"fail": "load"} if None in longer else {"latency_ms": 8.0 * math.prod(longer)}
        path = track.null_model(f"m{len(entrants.entries)}", **how)
        # The null backend knows no such options.
        entry = screen(track.ground, track.standard, Candidate("source", "null"), path, 20.0)
        entry.candidate = candidate
        track.stack.callback(lambda: entry.contender and entry.contender.close())
        entrants.entries.append(entry)
        entrants.candidates.append(candidate)
        return entry

    space = {"null": {option: tuple(values) for option, values in LONGER.items()}}
    entrants = SimpleNamespace(entries=[], candidates=[], starts=Starts(space), full=False, add=add)
    ending = Ending(Stop(), Clock(0.0, 60.0), track.baseline, said.append)
    races = Races(track.baseline, ending, said.append)
    start = add(Candidate("source", "null"))
    two = Turns("two", (2,), 2, keeps=(0.0,))
    alive = race(track.baseline, [start], two, said.append, "racing", time.monotonic() + 60)
    return SimpleNamespace(races=races, entrants=entrants, alive=alive, said=said, device=probe())


def test_choices_that_help_are_found_and_combined_without_trying_all(tuned):
    alive = tune(tuned.races, tuned.entrants, tuned.alive, time.monotonic() + 60, tuned.device)
    tried = [candidate.options for candidate in tuned.entrants.candidates]
    assert {"spinning": False, "level": "basic"} in tried
    assert len(tried) <= 5  # of 6
    assert {"spinning": False, "level": "basic"} in [entry.candidate.options for entry in alive]
    # What failed once is not tried again in company.
    assert [entry.candidate.options for entry in tuned.entrants.entries if entry.status == "failed"] == [
        {"level": "layout"}
    ]
    told = [event.message for event in tuned.said if isinstance(event, Progress) and event.phase == "tuning"]
    assert any("not tried before" in message for message in told)
    (log,) = [event.message for event in tuned.said if isinstance(event, Log)]
    assert log.startswith(f"Tuned: tried {len(tried) - 1} of 6 combinations")
    # All are to race again, in the same rounds.
    assert not any(entry.contender.slices_ms for entry in alive)


@pytest.mark.timing
def test_no_longer_than_its_share_and_not_after_it_was_told_to_stop(tuned):
    begin = time.monotonic()
    tune(tuned.races, tuned.entrants, tuned.alive, begin + 4.0, tuned.device)
    assert time.monotonic() <= begin + 4.0
    before = len(tuned.entrants.entries)
    tuned.races.ending.stop.set()
    assert tune(tuned.races, tuned.entrants, tuned.alive, time.monotonic() + 60, tuned.device)
    assert len(tuned.entrants.entries) == before
