import threading
import time

import numpy as np
import pytest

from edgeopt.measure.trials.laps import Pace, time_slice


class Runs:
    """Keeps what it was given, by which thread; takes a given time."""

    def __init__(self, takes_s=0.002):
        self.given, self.takes_s = [], takes_s

    def __call__(self, turn):
        self.given.append((threading.get_ident(), turn))
        time.sleep(self.takes_s)


def test_the_first_fifth_warms_up_and_the_rest_is_told():
    run = Runs()
    begin = time.perf_counter()
    taken = time_slice(run, "abc", 100.0)
    assert len(taken.latencies_ms) < len(run.given)
    assert begin + 0.02 <= taken.begin_s <= begin + 0.06
    assert all(latency >= 2 for latency in taken.latencies_ms)


def test_what_is_given_rotates_without_a_gap_over_the_warm_up():
    run = Runs()
    time_slice(run, "abc", 60.0)
    assert "".join(turn for _, turn in run.given).startswith("abcabca")


def test_starts_and_seconds_belong_to_the_runs():
    taken = time_slice(Runs(), "abc", 100.0)
    assert taken.starts_ms[0] == 0
    assert list(taken.starts_ms) == sorted(taken.starts_ms)
    assert len(taken.starts_ms) == len(taken.latencies_ms)
    assert taken.seconds * 1e3 == pytest.approx(taken.starts_ms[-1] + taken.latencies_ms[-1], abs=0.01)


def test_a_run_longer_than_the_slice_is_told_alone():
    run = Runs(0.05)
    taken = time_slice(run, "abc", 1.0)
    assert len(run.given) == len(taken.latencies_ms) == 1
    assert taken.seconds >= 0.05


def test_several_threads_run_at_once_each_with_its_own_place():
    run = Runs(0.01)
    alone = time_slice(Runs(0.01), "abcd", 200.0)
    taken = time_slice(run, "abcd", 200.0, concurrency=4)
    first = {}
    for thread, turn in run.given:
        first.setdefault(thread, turn)
    assert sorted(first.values()) == list("abcd")
    throughput = len(taken.latencies_ms) / taken.seconds
    # Sleeping costs no core, so four threads do four times as much; more they cannot, however busy the machine is.
    assert throughput > 2.5 * len(alone.latencies_ms) / alone.seconds
    assert throughput < 1.05 * 4 / 0.01
    assert list(taken.starts_ms) == sorted(taken.starts_ms)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_an_error_ends_the_slice_and_is_raised(concurrency):
    def fail(_turn):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        time_slice(fail, "abc", 50.0, concurrency)


@pytest.mark.parametrize("concurrency", [1, 2])
def test_events_are_counted_over_what_is_told(concurrency):
    run = Runs()
    taken = time_slice(run, "abc", 100.0, concurrency, lambda: {"runs": len(run.given)})
    before, after = taken.events
    told = after["runs"] - before["runs"]
    assert before["runs"] > 0
    # Of several threads, each may have a run under way at both looks.
    fewest = len(taken.latencies_ms) - (2 * concurrency if concurrency > 1 else 0)
    assert fewest <= told <= len(taken.latencies_ms) + 2 * concurrency


def runner(seconds=0.0):
    """A run that takes so long and remembers its feeds and when it began."""
    seen = []

    def run(feeds):
        seen.append((feeds["x"], time.perf_counter()))
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass

    return run, seen


def unpacked(answer):
    return np.frombuffer(answer.latencies_ms, "<f4")


ROTATION = [{"x": k} for k in range(3)]


def test_every_run_is_told_with_its_time():
    run, seen = runner(0.004)
    answer = Pace(run, ROTATION).slice(200.0, None)
    assert len(unpacked(answer)) == len(seen) >= 2
    assert (unpacked(answer) >= 4).all()
    assert unpacked(answer).sum() / 1e3 <= answer.seconds + 1e-3


def test_the_feeds_go_round_and_on_in_the_next_slice():
    run, seen = runner(0.002)
    pace = Pace(run, ROTATION)
    pace.slice(15.0, None)
    pace.slice(15.0, None)
    assert [feed for feed, _ in seen] == [k % 3 for k in range(len(seen))]


def test_a_slice_reaches_back_to_the_end_of_the_one_before():
    run, _ = runner(0.001)
    pace, begin = Pace(run, ROTATION), time.perf_counter()
    seconds = pace.slice(5.0, None).seconds
    while time.perf_counter() - begin < 0.1:
        pass
    seconds += pace.slice(5.0, None).seconds
    assert seconds == pytest.approx(time.perf_counter() - begin, abs=0.02)


def test_a_run_longer_than_the_slice_is_one_run():
    run, _ = runner(0.03)
    assert len(unpacked(Pace(run, ROTATION).slice(5.0, None))) == 1


@pytest.mark.timing
def test_a_rate_is_kept_by_the_clock_over_slices():
    run, seen = runner()
    pace = Pace(run, ROTATION)
    answers = [pace.slice(50.0, 20.0) for _ in range(8)]
    due = len(seen) + sum(a.missed for a in answers)
    assert 18 <= due <= 21
    begins = [begin for _, begin in seen]
    # Lateness of one does not push the others back: each is due 20 ms after the one before was due.
    assert begins[-1] - begins[0] == pytest.approx(0.02 * (due - 1), abs=0.019)
    assert sum(len(unpacked(a)) for a in answers) == len(seen)


def test_a_rate_below_the_slice_gives_empty_answers_and_loses_no_run():
    run, seen = runner()
    pace = Pace(run, ROTATION)
    counts = [len(unpacked(pace.slice(20.0, 100.0))) for _ in range(12)]
    assert set(counts) == {0, 1}
    assert 2 <= len(seen) <= 4


def test_what_comes_due_while_another_runs_is_missed_and_counted():
    run, seen = runner(0.035)
    pace = Pace(run, ROTATION)
    answers = [pace.slice(100.0, 10.0) for _ in range(3)]
    missed = sum(a.missed for a in answers)
    assert missed >= 2 * len(seen) - 3
    assert len(seen) + missed == pytest.approx(sum(a.seconds for a in answers) / 0.010, abs=15)
