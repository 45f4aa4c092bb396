"""What a search delivers of null models that raced."""

import pytest

from edgeopt.measure.stats import Interval
from edgeopt.pipeline.outcome import Candidate
from edgeopt.pipeline.prove.deliver import deliver
from edgeopt.pipeline.screen import CandidatePool, PoolEntry, RacePace
from edgeopt.profiles.targets import profile_for
from tests.conftest import this_device


@pytest.fixture
def delivered(track, tmp_path, quick_profile):
    """What comes of those that raced, with these options of null models; each looked twice as fast."""

    def work(*options, limit_s=60.0, longest_s=0.0, last_at=None, open_at=None):
        ending = track.ending(limit_s=limit_s)
        ending.longest_s = longest_s
        entrants = track.entrants(ending)
        twice = RacePace(Interval(2.0, 1.9, 2.1, 11), 2.0)
        entries = [PoolEntry(Candidate("source", "null", each), pace=twice) for each in options]
        search = track.search(tmp_path / "out.edgeopt", profile_for(this_device(), None, quick_profile))
        pool = CandidatePool(search, track.resources(ending), entrants.variants)
        pool.entries += entries
        if last_at is not None:
            entries[-1].fall_behind(entries[0].candidate, last_at)
        if open_at is not None:
            entries[-1].pace = RacePace(Interval(*open_at, 11), 2.0)
            entries[-1].fall_behind(entries[0].candidate, open_at[0])
        return deliver(pool, [each for each in entries if each.lead is None]), entries

    return work
