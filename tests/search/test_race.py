import os
import signal
import time

import pytest

from edgeopt.errors import TrialError
from edgeopt.events import ignore
from edgeopt.search.race import Heat, race, ranked

SHORT = (Heat(3, 0.5), Heat(2, 0.5))


def later():
    return time.monotonic() + 120


def test_the_fastest_leads_and_the_hopeless_leave_with_a_reason(track):
    fast, middle, slow = (track.enter(n, latency_ms=ms) for n, ms in (("ab", 2), ("abc", 3), ("abcd", 12)))
    order = race(track.baseline, [slow, middle, fast], SHORT, ignore, "racing", later())
    assert order == [fast, middle]
    assert slow.status == "lost"
    assert slow.contender is None
    assert fast.candidate.name in slow.reason
    assert slow.speedup.median < 0.6
    fast.measured(track.baseline)
    assert 1.4 < fast.speedup.median < 2.6


def test_of_equals_the_more_accurate_leads(track):
    """No clock: the slices are given, as two entries and a baseline measured them."""
    rough, exact, slower = track.enter("ab", noise=1e-3), track.enter("abc"), track.enter("abcd")
    track.baseline.slices_ms = [2.0] * 4
    rough.contender.slices_ms, exact.contender.slices_ms = [1.0] * 4, [1.005] * 4
    slower.contender.slices_ms = [1.2] * 4
    assert exact.accuracy_db > rough.accuracy_db
    assert ranked(track.baseline, [slower, rough, exact]) == [exact, rough, slower]
    rough.contender.slices_ms = [0.8] * 4
    assert ranked(track.baseline, [slower, rough, exact]) == [rough, exact, slower]


def test_who_crashes_in_the_race_is_out_and_the_others_go_on(track):
    good, crashing = track.enter("ab"), track.enter("abc")
    os.kill(crashing.contender.child.pid, signal.SIGKILL)
    assert race(track.baseline, [crashing, good], SHORT, ignore, "racing", later()) == [good]
    assert crashing.status == "failed"
    assert "SIGKILL" in crashing.reason


def test_the_deadline_ends_it(track):
    entries = [track.enter("ab"), track.enter("abc")]
    begin = time.monotonic()
    said = []
    order = race(track.baseline, entries, (Heat(1000, 0.0),), said.append, "racing", begin + 1.0)
    assert time.monotonic() - begin < 20
    assert {id(entry) for entry in order} == {id(entry) for entry in entries}
    assert 1 <= len(said) < 1000


def test_without_time_just_enough_is_measured_to_choose_by(track):
    entry, said = track.enter("ab"), []
    assert race(track.baseline, [entry], (Heat(50, 0.0),), said.append, "racing", time.monotonic()) == [entry]
    entry.measured(track.baseline)
    assert entry.speedup.rounds == len(said) == 2


def test_what_was_measured_before_still_ranks_when_no_time_is_left(track):
    slow, quick = track.enter("abc"), track.enter("ab")
    first = race(track.baseline, [slow, quick], (Heat(4, 0.0),), ignore, "racing", later())
    said = []
    assert race(track.baseline, [slow, quick], SHORT, said.append, "tuning", time.monotonic()) == first
    assert not said


def test_a_baseline_that_falls_ends_the_race_with_a_sentence(track):
    entry = track.enter("ab")
    os.kill(track.baseline.child.pid, signal.SIGSEGV)
    with pytest.raises(TrialError, match="The source model crashed: SIGSEGV"):
        race(track.baseline, [entry], SHORT, ignore, "racing", later())


def test_it_tells_how_far_it_is(track):
    said = []
    race(track.baseline, [track.enter("ab"), track.enter("abc")], (Heat(3, 0.0),), said.append, "final", later())
    assert [(event.phase, event.done, event.total) for event in said] == [("final", k, 3) for k in (1, 2, 3)]
    assert all(event.best.endswith("x") for event in said)
