import os
import signal
import time

import pytest

from edgeopt.errors import TrialError
from edgeopt.events import Progress, Standing, ignore
from edgeopt.measure.terms import Turns
from edgeopt.search.racing.race import race, ranked


def of(*looks, share=0.0):
    """Heats of which each keeps who has such a share of the best speed."""
    return Turns("heats", looks, 2, keeps=(share,) * len(looks))


SHORT = of(3, 5, share=0.5)


def later():
    return time.monotonic() + 120


@pytest.mark.timing
def test_the_fastest_leads_and_the_hopeless_leave_with_a_reason(track):
    fast, middle, slow = (track.enter(n, latency_ms=ms) for n, ms in (("ab", 2), ("abc", 3), ("abcd", 12)))
    order = race(track.baseline, [slow, middle, fast], SHORT, ignore, "racing", later())
    assert order == [fast, middle]
    assert slow.status == "lost"
    assert slow.contender is None
    assert fast.candidate.name in slow.reason
    assert slow.speedup.median < 0.6
    fast.measured(track.baseline)
    assert 1.1 < fast.speedup.median < 4


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


@pytest.mark.processes
def test_who_crashes_in_the_race_is_out_and_the_others_go_on(track):
    good, crashing = track.enter("ab"), track.enter("abc")
    os.kill(crashing.contender.child.pid, signal.SIGKILL)
    assert race(track.baseline, [crashing, good], SHORT, ignore, "racing", later()) == [good]
    assert crashing.status == "failed"
    assert "killed by the system" in crashing.reason


def test_the_deadline_ends_it(track):
    entries = [track.enter("ab"), track.enter("abc")]
    begin = time.monotonic()
    said = []
    order = race(track.baseline, entries, of(1000), said.append, "racing", begin + 1.0)
    assert time.monotonic() - begin < 60
    assert {id(entry) for entry in order} == {id(entry) for entry in entries}
    assert 1 <= sum(isinstance(event, Progress) for event in said) < 1000


@pytest.mark.timing
def test_without_time_just_enough_is_measured_to_choose_by(track):
    entry, said = track.enter("ab"), []
    assert race(track.baseline, [entry], of(50), said.append, "racing", time.monotonic()) == [entry]
    entry.measured(track.baseline)
    assert entry.speedup.rounds == 2
    assert [type(event) for event in said] == [Progress, Progress]


def test_what_was_measured_before_still_ranks_when_no_time_is_left(track):
    slow, quick = track.enter("abc"), track.enter("ab")
    first = race(track.baseline, [slow, quick], of(4), ignore, "racing", later())
    said = []
    assert race(track.baseline, [slow, quick], SHORT, said.append, "tuning", time.monotonic()) == first
    assert not said


@pytest.mark.processes
def test_a_baseline_that_falls_ends_the_race_with_a_sentence(track):
    entry = track.enter("ab")
    os.kill(track.baseline.child.pid, signal.SIGSEGV)
    with pytest.raises(TrialError, match="The source model crashed: SIGSEGV"):
        race(track.baseline, [entry], SHORT, ignore, "racing", later())


def test_it_tells_how_far_it_is(track):
    said = []
    race(track.baseline, [track.enter("ab"), track.enter("abc")], of(3), said.append, "final", later())
    told = [event for event in said if isinstance(event, Progress)]
    assert [(event.phase, event.done, event.total) for event in told] == [("final", k, 3) for k in (1, 2, 3)]
    assert all(event.best.endswith("x") for event in told)


@pytest.mark.timing
def test_it_tells_how_each_candidate_stands_and_who_leaves(track):
    quick, slow = track.enter("ab", latency_ms=2), track.enter("abc", latency_ms=12)
    said = []
    race(track.baseline, [slow, quick], of(6, 12, share=0.5), said.append, "racing", later())
    told = [event for event in said if isinstance(event, Standing)]
    running = [event for event in told if event.candidate == quick.candidate.name]
    assert {event.status for event in running} == {"racing"}
    assert 1.4 < running[-1].speedup < 2.6
    assert running[-1].speedup_low <= running[-1].speedup <= running[-1].speedup_high
    assert running[-1].latency_ms >= 2
    assert running[-1].accuracy_db == quick.accuracy_db
    last = [event for event in told if event.candidate == slow.candidate.name][-1]
    assert (last.status, last.reason) == ("lost", slow.reason)
    assert [event.candidate for event in told].count(slow.candidate.name) == 1 + sum(
        event.status == "racing" for event in told if event.candidate == slow.candidate.name
    )


@pytest.mark.processes
def test_a_crash_is_told_as_the_end_of_a_candidate(track):
    good, crashing = track.enter("ab"), track.enter("abc")
    os.kill(crashing.contender.child.pid, signal.SIGKILL)
    said = []
    race(track.baseline, [crashing, good], of(2), said.append, "racing", later())
    (end,) = [event for event in said if isinstance(event, Standing) and event.status != "racing"]
    assert (end.candidate, end.status, end.reason) == (crashing.candidate.name, "failed", crashing.reason)
