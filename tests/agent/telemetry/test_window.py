import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeopt_agent.telemetry.window import LatencyWindow

LATENCIES = st.lists(st.floats(1e-3, 1e5), min_size=1, max_size=200)
SHARES = (0.5, 0.9, 0.99)


@given(LATENCIES)
def test_percentiles_are_those_of_the_values_within_half_a_percent(latencies):
    window = LatencyWindow(10)
    for latency in latencies:
        window.add(latency)
    window.tick()
    exact = np.quantile(latencies, SHARES, method="inverted_cdf")
    assert window.quantiles(SHARES) == pytest.approx(list(exact), rel=0.006)
    assert window.last() == pytest.approx(exact[0], rel=0.006)


@given(st.lists(st.lists(st.floats(0.01, 100), max_size=5), min_size=1, max_size=12))
def test_what_is_older_than_the_window_is_forgotten(ticks):
    window = LatencyWindow(3)
    for latencies in ticks:
        for latency in latencies:
            window.add(latency)
        window.tick()
    recent = [latency for latencies in ticks[-3:] for latency in latencies]
    found = window.quantiles((0.5,))
    if recent:
        assert found == pytest.approx([np.quantile(recent, 0.5, method="inverted_cdf")], rel=0.006)
    else:
        assert found == []
    assert window.count(2) == sum(map(len, ticks[-2:]))
    assert (window.last() is None) is (not ticks[-1])


def test_nothing_has_no_percentiles():
    window = LatencyWindow(3)
    assert window.last() is None
    assert window.quantiles(SHARES) == []


def test_the_values_of_the_last_tick_are_told_one_by_one():
    window = LatencyWindow(3)
    assert window.last_values() == ()
    for latency_ms in (1.0, 1.0, 40.0):
        window.add(latency_ms)
    window.tick()
    assert sorted(window.last_values()) == pytest.approx([1.0, 1.0, 40.0], rel=0.006)
    window.tick()
    assert window.last_values() == ()
