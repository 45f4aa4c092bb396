import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeopt.measure.watch import Latencies

TAKEN = st.lists(st.floats(2**-10, 2**16, width=32), min_size=1, max_size=200)


@given(TAKEN)
def test_percentiles_are_those_of_all_runs_within_a_fifth_of_a_percent(taken):
    kept = Latencies()
    for start in range(0, len(taken), 7):
        kept.add(float(start), np.array(taken[start : start + 7], np.float32))
    found = kept.all()
    wanted = np.percentile(taken, [50, 90, 99], method="inverted_cdf")
    assert found.runs == len(taken)
    assert np.allclose([found.p50_ms, found.p90_ms, found.p99_ms], wanted, rtol=2.1e-3)


def test_old_runs_leave_the_window_and_stay_in_the_whole():
    kept = Latencies(window_s=10.0)
    kept.add(0.0, np.full(100, 50.0, np.float32))
    kept.add(9.0, np.full(10, 1.0, np.float32))
    assert kept.recent().p50_ms == pytest.approx(50, rel=3e-3)
    kept.add(10.5, np.zeros(0, np.float32))
    assert kept.recent().runs == 10
    assert kept.recent().p99_ms == pytest.approx(1, rel=3e-3)
    assert kept.all().runs == 110


def test_without_a_run_there_is_no_percentile():
    kept = Latencies()
    kept.add(1.0, np.zeros(0, np.float32))
    assert kept.recent() is None
    assert kept.all() is None


def test_latencies_beyond_every_bin_are_counted():
    kept = Latencies()
    kept.add(0.0, np.array([0.0, 1e-9, 1e12], np.float32))
    assert kept.all().runs == 3
    assert kept.all().p99_ms > 1e5


def test_hours_of_a_fast_model_take_little_memory():
    kept, one = Latencies(window_s=10.0), np.random.default_rng(0).gamma(9, 0.02, 2000).astype(np.float32)
    for tick in range(3000):
        kept.add(tick / 12.5, one)
    assert kept.all().runs == 6_000_000
    assert kept.recent().runs == pytest.approx(250_000, rel=0.02)
    assert len(kept._ticks) <= 126
