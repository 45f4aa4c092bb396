"""What holds for every method."""

import math

import numpy as np
import pytest

from edgeopt.errors import UsageError
from edgeopt.quant.ranges import METHODS, method_named, noise_db, range_of
from edgeopt.quant.records import QuantSettings, Range

SYMMETRIC = QuantSettings(symmetric_activations=True)
each = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)


@each
def test_zero_is_inside_and_nothing_beyond_what_was_seen(method, curve, seen_of):
    seen = seen_of(curve)
    found = range_of(method, seen, QuantSettings())
    assert found.low <= 0 <= found.high
    assert found.high > found.low
    slack = 1e-6 * seen.reach
    assert min(seen.low, 0) - slack <= found.low
    assert found.high <= max(seen.high, 0) + slack


@each
def test_symmetric_where_that_is_asked_for(method, curve, seen_of):
    found = range_of(method, seen_of(curve), SYMMETRIC)
    assert found.low == -found.high < 0


@each
@pytest.mark.parametrize("value", [0.0, 1e-38, -2.5, 3e38])
def test_a_tensor_of_one_value(method, value, seen_of):
    found = range_of(method, seen_of(np.full(100, value)), QuantSettings())
    assert math.isfinite(found.low)
    assert math.isfinite(found.high)
    assert found.high - found.low > 1e-30
    if abs(value) > 1e-30:
        assert found.low <= np.float32(value) * (1 + 1e-6) or found.low == pytest.approx(value)
        assert found.high >= value or found.high == pytest.approx(value)


@each
def test_well_behaved_values_keep_their_bits(method, seen_of):
    seen = seen_of(np.random.default_rng(0).standard_normal(50_000))
    assert noise_db(seen.histogram, range_of(method, seen, QuantSettings())) > 38


def test_names():
    assert [method_named(method.name) for method in METHODS] == list(METHODS)
    with pytest.raises(UsageError, match="no calibration named 'best'") as error:
        method_named("best")
    assert "minmax" in error.value.hint


def test_minmax_is_what_was_seen(seen_of):
    assert range_of(method_named("minmax"), seen_of([-1, 2], [0.5, 3]), QuantSettings()) == Range(-1.0, 3.0)
    assert range_of(method_named("minmax"), seen_of([1, 2], [0.5, 3]), QuantSettings()) == Range(0.0, 3.0)


def test_one_odd_sample_moves_the_average_little(seen_of):
    samples = [[-1, 2]] * 9 + [[-11, 2]]
    assert range_of(method_named("moving-average"), seen_of(*samples), QuantSettings()) == Range(-2.0, 2.0)


def test_percentile_leaves_out_the_share_that_it_says(seen_of):
    seen = seen_of(np.linspace(-1, 1, 100_001))
    found = range_of(method_named("percentile"), seen, QuantSettings(percentile=90.0))
    assert (found.low, found.high) == pytest.approx((-0.9, 0.9), abs=0.002)
    found = range_of(
        method_named("percentile"), seen_of(np.linspace(0, 1, 100_001)), QuantSettings(percentile=90.0)
    )
    assert (found.low, found.high) == pytest.approx((0, 0.95), abs=0.002)
    symmetric = QuantSettings(percentile=90.0, symmetric_activations=True)
    found = range_of(method_named("percentile"), seen_of(np.linspace(-1, 0.5, 100_001)), symmetric)
    assert found.high == pytest.approx(0.85, abs=0.002)


def test_the_whole_is_the_hundredth_percentile(seen_of):
    seen = seen_of([-2.0, 1, 5, 0.5])
    assert range_of(method_named("percentile"), seen, QuantSettings(percentile=100.0)) == Range(-2.0, 5.0)


def test_distribution_finds_the_textbook_multiples(seen_of):
    """3.92 standard deviations of a bell curve, 9.90 mean deviations of Laplace's, for eight bits."""
    random = np.random.default_rng(0)
    method = method_named("distribution")
    bell = range_of(method, seen_of(random.standard_normal(1_000_000)), QuantSettings())
    assert (bell.low, bell.high) == pytest.approx((-3.92, 3.92), rel=0.02)
    laplace = range_of(method, seen_of(random.laplace(size=1_000_000)), QuantSettings())
    assert (laplace.low, laplace.high) == pytest.approx((-9.9, 9.9), rel=0.02)


def test_a_method_that_needs_counts_says_so(seen_of):
    seen = seen_of([1.0, 2.0])
    without = type(seen)("t", seen.lows, seen.highs)
    with pytest.raises(ValueError, match="without a histogram"):
        method_named("mse").find(without, QuantSettings())
    assert range_of(method_named("mse"), without, QuantSettings()) == Range(0.0, 2.0)


def test_profiles_know_every_method():
    from edgeopt.profiles.schema import CALIBRATIONS

    assert tuple(method.name for method in METHODS) == CALIBRATIONS
