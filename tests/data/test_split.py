import numpy as np
import pytest
from hypothesis import given, strategies

from edgeopt.data.judging.metrics import metric_named
from edgeopt.data.split import (
    FEWEST_CHECKING,
    FEWEST_PROVING,
    SampleLimits,
    limits_for,
    split,
    spread,
)

LIMITS = strategies.builds(SampleLimits, strategies.integers(24, 500), strategies.integers(16, 5000))


def places(found):
    return set(range(found.calibration_count)), set(found.check), set(found.prove)


@given(strategies.integers(12, 10_000), LIMITS)
def test_no_sample_does_two_of_these(count, limits):
    calibration, check, prove = places(split(count, True, limits))
    assert calibration
    assert check
    assert prove
    assert not calibration & check
    assert not calibration & prove
    assert not check & prove
    assert calibration | check | prove <= set(range(count))


@given(strategies.integers(1, 5000), strategies.booleans(), LIMITS)
def test_all_are_samples_that_exist(count, of_user, limits):
    calibration, check, prove = places(split(count, of_user, limits))
    assert check
    assert prove
    assert calibration | check | prove <= set(range(count))


@given(strategies.integers(1, 500))
def test_generated_samples_never_calibrate(count):
    assert split(count, from_user=False).calibration_count == 0


@given(strategies.integers(4, 11))
def test_few_samples_calibrate_with_one_half_and_are_judged_by_the_other(count):
    found = split(count, from_user=True)
    calibration, check, prove = places(found)
    assert found.is_shared
    assert check == prove
    assert calibration
    assert not calibration & check
    assert calibration | check == set(range(count))


@given(strategies.integers(1, 3))
def test_too_few_samples_never_calibrate(count):
    assert split(count, from_user=True).calibration_count == 0


def test_half_of_the_samples_calibrate_up_to_a_hundred():
    assert split(32, from_user=True).calibration_count == 16
    assert split(10_000, from_user=True).calibration_count == 100


def test_all_samples_that_do_nothing_else_prove_by_counted_answers():
    limits = limits_for(metric_named("top1-labels"), run_ms=0.1)
    found = split(897, True, limits)
    assert found.prove_count == 897 - 100 - found.check_count
    assert split(20_000, True, limits).prove_count == 5000


def test_a_ratio_is_proved_on_more_samples_where_they_cost_seconds():
    snr = metric_named("snr")
    assert limits_for(snr, run_ms=0.1) == SampleLimits(FEWEST_CHECKING, 256)
    assert limits_for(snr, run_ms=20.0).proving == 50
    assert limits_for(snr, run_ms=5000.0) == SampleLimits(FEWEST_CHECKING, FEWEST_PROVING)


@pytest.mark.parametrize("count", [60, 500, 5000])
def test_each_part_of_sorted_samples_has_all_classes_in_proportion(count):
    labels = np.repeat(np.arange(10), count // 10)
    spread_labels = labels[spread(count, 1, labels)]
    parts = split(count, True, SampleLimits(24, 5000))
    for part in (range(parts.calibration_count), parts.check, parts.prove):
        counts = np.bincount(spread_labels[part.start : part.stop], minlength=10)
        assert counts.max() - counts.min() <= 2


@given(strategies.integers(1, 3000))
def test_the_order_holds_each_sample_once_and_is_the_same_each_time(count):
    order = spread(count, 1)
    assert sorted(order) == list(range(count))
    assert (order == spread(count, 1)).all()


def test_samples_without_labels_do_not_stay_in_the_order_of_the_file():
    late = spread(1000, 1)[:100]
    assert 0.3 < np.mean(late >= 500) < 0.7


def test_labels_of_several_rows_do_not_order_samples():
    rows = np.zeros((40, 3), int)
    assert (spread(40, 1, rows) == spread(40, 1)).all()


def test_only_as_many_large_samples_are_kept_as_fit_into_memory():
    assert len(spread(5000, 1 << 20)) == 1024
    assert len(spread(5000, 1 << 30)) == 300


@pytest.mark.parametrize(
    ("count", "from_user", "expected"), [(12, True, True), (9, True, False), (24, False, False)]
)
def test_samples_that_also_check_are_not_set_aside(count, from_user, expected):
    assert split(count, from_user).is_set_aside == expected
