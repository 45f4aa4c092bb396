"""Single runs: which are kept, and what their distribution tells."""

import numpy as np
import pytest

from edgeopt.events import Metric
from edgeopt_gui.pages.live.history import History
from edgeopt_gui.pages.live.runs import Runs


def test_only_runs_between_the_two_times_count():
    runs = Runs()
    for second in range(10):
        runs.add(float(second), [1.0 + second] * 3)
    found = runs.distribution(2.0, 4.0)
    assert found.runs == 9
    assert dict(found.percentiles)["p50"] == 4.0
    assert int(found.counts.sum()) == 9
    assert found.since_s is None
    assert runs.distribution(100.0, 200.0) is None


def test_runs_over_a_limit_are_counted_exactly():
    runs = Runs()
    runs.add(1.0, [4.0, 5.0, 5.001, 6.0])
    assert runs.over(5.0, 0.0, 2.0) == (2, 4)
    assert runs.over(5.0, 2.0, 3.0) == (0, 0)


def test_the_latest_runs_stay_when_there_is_no_room_for_all():
    runs = Runs(capacity=100)
    for tick in range(33):
        runs.add(float(tick), [float(tick + 1)] * 7)
    found = runs.distribution(0.0, 100.0)
    assert found.runs == 100
    assert dict(found.percentiles)["p99"] == 33.0
    assert found.since_s == 18.0
    assert runs.distribution(20.0, 100.0).since_s is None


def test_p999_needs_a_thousand_runs():
    runs = Runs()
    runs.add(1.0, np.linspace(1, 2, 999).tolist())
    found = runs.distribution(0.0, 2.0)
    assert [label for label, _ in found.percentiles] == ["p50", "p95", "p99"]
    assert found.runs_missing == 1
    runs.add(1.5, [50.0, 60.0])
    found = runs.distribution(0.0, 2.0)
    assert found.runs_missing == 0
    assert dict(found.percentiles)["p99.9"] == pytest.approx(50.0)


def test_runs_of_what_was_watched_before_do_not_count():
    history = History()
    history.take(Metric("latency_ms", 2.0, samples=(1.0, 2.0, 3.0)), 10.0)
    assert history.runs.distribution(0.0, 20.0).runs == 3
    history.begin()
    assert history.runs.distribution(0.0, 20.0) is None
