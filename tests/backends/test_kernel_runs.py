import pytest

from edgeopt.backends.kernel_runs import FEWEST_RUNS, of_means, of_runs, turns


def means(runs):
    return [sum(runs[: place + 1]) / (place + 1) for place in range(len(runs))]


def test_a_slow_run_changes_neither_the_time_nor_the_range():
    assert of_runs([0.16, 0.17, 0.16, 48.8, 0.15]) == pytest.approx((0.16, 0.16, 0.17))


def test_a_slow_run_does_not_change_a_mean_that_the_runtime_tells():
    time_ms, low_ms, high_ms = of_means(means([9.0, *[0.16] * 12, 48.8, *[0.16] * 7]))
    assert 0.16 <= time_ms < 0.2
    assert low_ms == pytest.approx(0.16)
    assert high_ms < 1


def test_the_mean_that_the_runtime_tells_is_freed_of_its_first_run():
    assert of_means(means([9.0, 1.0, 2.0, 3.0]))[0] == pytest.approx(2.0)
    assert of_means([9.0]) == (9.0, 9.0, 9.0)


def test_whole_microseconds_of_a_short_kernel_stay_exact_over_many_runs():
    runs = [0.02, *[0.0044] * 99]
    found = of_means([int(mean * 1000) / 1000 for mean in means(runs)])
    assert found[0] == pytest.approx(0.0044, abs=0.0011)
    assert found[1] <= found[0] <= found[2]


def test_runs_that_differ_much_have_a_wide_range():
    time_ms, low_ms, high_ms = of_runs([0.1, 0.1, 48.8, 48.9, 24.0])
    assert high_ms - low_ms > time_ms


def test_out_of_time_a_slow_model_still_has_enough_runs_for_a_median():
    assert len(list(turns(100, 0.0))) == FEWEST_RUNS + 1
    assert len(list(turns(3, 60.0))) == 4
