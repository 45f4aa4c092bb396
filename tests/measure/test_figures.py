import numpy as np
import pytest

from edgeopt.measure.tally import WINDOW_SLICES, figures, stable


def slices(*latencies_ms, runs=10):
    """One slice for each latency, and how long each took."""
    return [np.full(runs, ms) for ms in latencies_ms], [runs * ms / 1e3 for ms in latencies_ms]


def test_the_figures_of_a_hundred_runs():
    runs = np.arange(1.0, 101.0)
    found = figures([runs[:50], runs[50:]], [2.0, 3.05])
    assert found.runs == 100
    assert (found.p50_ms, found.p90_ms, found.p95_ms) == pytest.approx((50.5, 90.1, 95.05))
    assert found.p99_ms == pytest.approx(99.01)
    assert (found.mean_ms, found.lowest_ms, found.highest_ms) == (50.5, 1.0, 100.0)
    assert found.deviation_ms == pytest.approx(29.01, abs=0.01)
    assert found.throughput_per_s == pytest.approx(100 / 5.05)


def test_nothing_has_no_figures_and_one_run_has_no_deviation():
    assert figures([], []) is None
    assert figures([np.array([3.0])], [0.003]).deviation_ms == 0.0


def test_less_than_three_windows_are_neither_stable_nor_not():
    assert stable(*slices(*[1.0] * (3 * WINDOW_SLICES - 1))) is None


@pytest.mark.parametrize(
    ("first", "second", "third", "agree"),
    [(1.0, 1.0, 1.0, True), (1.0, 1.05, 1.09, True), (1.0, 1.05, 1.12, False), (2.0, 1.0, 1.0, False)],
)
def test_three_windows_agree_within_ten_percent(first, second, third, agree):
    windows = [ms for ms in (first, second, third) for _ in range(WINDOW_SLICES)]
    assert stable(*slices(*windows)) is agree
    assert stable(*slices(*[9.0] * WINDOW_SLICES, *windows)) is agree, "only the last three windows count"


def test_throughput_must_agree_too():
    latencies_ms, seconds = slices(*[1.0] * (3 * WINDOW_SLICES))
    assert stable(latencies_ms, seconds[:-WINDOW_SLICES] + [2 * s for s in seconds[-WINDOW_SLICES:]]) is False
