"""The events of a real search tell the same story as its outcome."""

import itertools

import pytest

from edgeopt.events import Progress, Standing, decode, encode
from edgeopt.search.standings import Ticker, final, racing

# With the searches of test_optimize, which are made once.
pytestmark = pytest.mark.alone


@pytest.fixture(params=["with_data", "without_data", "nothing_wins"])
def found(request):
    return request.getfixturevalue(request.param)


def by_candidate(found):
    told = {}
    for event in found.said:
        if isinstance(event, Standing):
            told.setdefault(event.candidate, []).append(event)
    return told


def test_the_last_standing_of_every_candidate_is_what_the_outcome_says(found):
    told = by_candidate(found)
    reports = {report.candidate.name: report for report in found.outcome.candidates}
    assert told.keys() == reports.keys()
    for name, report in reports.items():
        last = told[name][-1]
        assert (last.status, last.reason) == (report.status, report.reason)
        assert last.accuracy_db == report.accuracy_db
        assert last.latency_ms == report.latency_ms
        if report.speedup:
            assert (last.speedup, last.speedup_low) == (report.speedup.median, report.speedup.low)


def test_a_candidate_ends_once_unless_it_is_called_back(found):
    for events in by_candidate(found).values():
        statuses = [event.status for event in events]
        ends = [k for k, status in enumerate(statuses) if status != "racing"]
        assert ends[-1] == len(statuses) - 1
        # Between two ends it was told as racing again.
        assert all(second - first > 1 for first, second in itertools.pairwise(ends))


def test_everybody_who_runs_is_told_when_it_enters_with_its_accuracy(found):
    for name, events in by_candidate(found).items():
        if events[0].status == "racing":
            assert events[0].accuracy_db is not None, name
            assert events[0].speedup is None
        else:
            assert events[0].status in {"failed", "below the floor"}


def test_what_left_without_winning_says_why(found):
    assert all(e.reason for events in by_candidate(found).values() for e in events if e.status == "lost")


def test_standings_move_while_the_race_runs(with_data):
    measured = [e for e in with_data.said if isinstance(e, Standing) and e.status == "racing" and e.speedup]
    assert measured
    assert all(e.speedup_low is None or e.speedup_low <= e.speedup <= e.speedup_high for e in measured)
    # Not more than the line between two rounds can carry.
    rounds = sum(isinstance(e, Progress) and e.phase in {"racing", "tuning", "final"} for e in with_data.said)
    assert len(measured) <= rounds * len(with_data.outcome.candidates)


def test_they_survive_the_way_over_a_pipe(found):
    for event in found.said:
        assert type(decode(encode(event))) is type(event)


def test_an_interval_of_few_rounds_is_not_told(track):
    entry = track.enter("ab", latency_ms=2)
    track.baseline.slices_ms, entry.contender.slices_ms = [4.0, 4.0], [2.0, 2.0]
    early = racing(entry, track.baseline)
    assert (early.speedup, early.speedup_low, early.speedup_high) == (2.0, None, None)
    track.baseline.slices_ms, entry.contender.slices_ms = [4.0] * 4, [2.0] * 4
    assert racing(entry, track.baseline).speedup_low == 2.0
    entry.measured(track.baseline)
    entry.leave("lost", "a reason")
    assert (final(entry).status, final(entry).reason, final(entry).speedup) == ("lost", "a reason", 2.0)


def test_it_is_told_seldom_enough_not_to_lengthen_the_race(track):
    entry, said = track.enter("ab"), []
    ticker = Ticker(said.append)
    for _ in range(50):
        ticker.tell(track.baseline, [entry])
    assert len(said) <= 1
