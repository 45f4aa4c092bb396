"""Samples and markers as they come, from this machine's clock or another's."""

import tracemalloc

import numpy as np
import pytest

from edgeopt.events import Metric
from edgeopt_gui.pages.live.history import History

NOW_S = 1_790_000_000.0


def told(history, values, name="latency_ms", begin=NOW_S, step=0.1, off=0.0):
    for place, value in enumerate(values):
        time_s = begin + place * step
        history.take(Metric(name, float(value), time_s=time_s - off), time_s)


def gaps(history, name="latency_ms"):
    ring = history.rings[name]
    times, _ = ring.all()
    joined = ring.window(times[0], times[-1], 10_000).joined
    return [] if joined is None else list(np.flatnonzero(joined == 0))


def test_values_peaks_and_times_are_kept():
    history = History()
    told(history, [3, 9, 1])
    assert history.latest == {"latency_ms": 1}
    assert history.peaks == {"latency_ms": 9}
    assert history.moments == 3
    assert history.last_s == pytest.approx(NOW_S + 0.2)


def test_a_metric_without_a_time_is_of_now():
    history = History()
    history.take(Metric("latency_ms", 1.0), NOW_S)
    assert history.rings["latency_ms"].all()[0][0] == NOW_S


def test_the_clock_of_another_machine_is_put_right():
    history = History()
    told(history, [1, 2], off=3600.0)
    assert history.clock_off_s == 3600
    assert history.last_s == pytest.approx(NOW_S + 0.1)


def test_a_clock_that_differs_by_a_moment_is_left_alone():
    history = History()
    told(history, [1, 2], off=0.5)
    assert history.clock_off_s == 0
    assert history.last_s == pytest.approx(NOW_S - 0.4)


def test_a_clock_that_is_put_back_does_not_hide_what_comes():
    history = History()
    told(history, [1, 2, 3])
    told(history, [4, 5], begin=NOW_S + 0.3, off=7200.0)
    times, values = history.rings["latency_ms"].all()
    assert list(values) == [1, 2, 3, 4, 5]
    assert np.all(np.diff(times) > 0)
    assert times[-1] == pytest.approx(NOW_S + 0.4)


def test_two_samples_of_one_moment_keep_their_order():
    history = History()
    told(history, [1, 2, 3], step=0.0)
    assert np.all(np.diff(history.rings["latency_ms"].all()[0]) > 0)


def test_a_pause_in_the_telling_is_a_gap_and_a_slow_model_is_none():
    history = History()
    told(history, range(20))
    told(history, range(5), begin=NOW_S + 20)
    assert gaps(history) == [19]
    slow = History()
    told(slow, range(20), step=5.0)
    assert gaps(slow) == []


def test_an_interruption_is_a_gap_however_short():
    history = History()
    told(history, range(20))
    history.interrupt()
    told(history, range(5), begin=NOW_S + 2.0)
    assert gaps(history) == [19]


def test_another_run_has_its_own_peaks():
    history = History()
    told(history, [9, 1])
    history.begin()
    assert (history.latest, history.peaks) == ({}, {})
    told(history, [2], begin=NOW_S + 1)
    assert history.peaks == {"latency_ms": 2}
    assert history.moments == 3


def test_clearing_keeps_what_is_now():
    history = History()
    told(history, [9, 1])
    history.mark("started", NOW_S)
    history.clear()
    assert (history.moments, history.markers, history.peaks) == (0, [], {"latency_ms": 1})
    told(history, [2], begin=NOW_S + 1)
    assert len(history.rings["latency_ms"]) == 1


def test_a_flood_of_names_and_markers_is_bounded():
    history = History(256)
    for number in range(100):
        history.take(Metric(f"metric_{number}", 1.0), NOW_S)
    for number in range(2000):
        history.mark(f"marker {number}", NOW_S)
    assert len(history.rings) == 24
    assert (len(history.markers), history.markers[-1].label) == (500, "marker 1999")


def test_a_snapshot_does_not_change_any_more():
    history = History()
    told(history, [1, 2])
    snapshot = history.snapshot()
    told(history, [3], begin=NOW_S + 1)
    history.clear()
    assert list(snapshot.columns["latency_ms"][1]) == [1, 2]


@pytest.mark.slow
def test_memory_stays_flat_over_four_hours():
    names = ("latency_ms", "latency_p50_ms", "load_percent")
    history = History()
    metrics = [Metric(name, 1.5) for name in names]

    def hours(begin, end):
        for moment in range(begin * 36_000, end * 36_000, 4):
            for metric in metrics:
                history.take(metric, NOW_S + moment / 10)

    hours(0, 1)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    hours(1, 6)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 100_000
    assert all(ring.nbytes < 7 * 2**20 for ring in history.rings.values())
