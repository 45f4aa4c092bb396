"""What holds for every method."""

import contextlib
import io
import math

import numpy as np
import pytest

from edgeopt.errors import UsageError
from edgeopt.quant.ranges import (
    ENTROPY,
    METHODS,
    MSE,
    Histogram,
    count,
    empty,
    method_named,
    noise_db,
    outside_share,
    range_of,
    squared_errors,
)
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


BINS = 512


@pytest.fixture
def theirs():
    from onnxruntime.quantization.calibrate import HistogramCollector

    def compute(values):
        collector = HistogramCollector("entropy", False, BINS, 128, 99.99, "same")
        with contextlib.redirect_stdout(io.StringIO()):
            collector.collect({"t": [values.astype(np.float32)]})
            low, high = collector.compute_collection_result()["t"][:2]
        counts, _, _, _, reach = collector.histogram_dict["t"]
        return float(low), float(high), Histogram(counts, float(reach))

    return compute


def silu(values):
    return values / (1 + np.exp(-values))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("shape", ["bell", "half", "laplace", "silu", "tail", "few"])
def test_the_same_range_from_the_same_counts(shape, seed, seen_of, theirs):
    random = np.random.default_rng(seed)
    values = {
        "bell": lambda: random.standard_normal(20_000),
        "half": lambda: np.maximum(random.standard_normal(20_000), 0),
        "laplace": lambda: random.laplace(size=20_000),
        "silu": lambda: silu(3 * random.standard_normal(20_000)),
        "tail": lambda: random.standard_t(3, 20_000),
        "few": lambda: random.standard_normal(300),
    }[shape]()
    low, high, histogram = theirs(values)
    seen = seen_of(values)
    found = ENTROPY.find(type(seen)("t", seen.lows, seen.highs, histogram), QuantSettings())
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.001 * (high - low))
    # Counted here, from the same values.
    own = range_of(ENTROPY, seen_of(values, bins=BINS), QuantSettings())
    assert (own.low, own.high) == pytest.approx((min(low, 0), high), abs=0.01 * (high - low))


def test_so_sparse_that_onnxruntime_fails(seen_of):
    values = np.zeros(40)
    values[:3] = [1.0, -1.0, 0.3]
    found = range_of(ENTROPY, seen_of(values), QuantSettings())
    assert found.low < 0 < found.high


def test_with_fewer_bins_than_steps_it_is_the_whole(seen_of):
    found = range_of(ENTROPY, seen_of([-1.0, 2.0], bins=32), QuantSettings())
    assert (found.low, found.high) == (-1.0, 2.0)


def of(values, bins=2048):
    histogram = empty(float(np.abs(values).max()), bins)
    count(histogram, values)
    return histogram


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_it_counts_as_numpy_does(dtype):
    values = np.random.default_rng(0).standard_normal((3, 50_000)).astype(dtype)
    found = of(values, bins=64)
    wanted, _ = np.histogram(values.astype(np.float64), 64, range=(-found.reach, found.reach))
    assert found.counts.sum() == values.size
    # A value on the border of two bins may count in either.
    assert np.abs(found.counts - wanted).sum() <= 10


def test_more_values_add_up_and_what_is_beyond_counts_at_the_ends():
    histogram = empty(1.0, 4)
    count(histogram, np.array([-1, -0.6, 0.1, 1.0], np.float32))
    count(histogram, np.array([[-7.0], [7.0]], np.float32))
    count(histogram, np.array([], np.float32))
    assert histogram.counts.tolist() == [3, 0, 1, 2]
    assert histogram.edges.tolist() == [-1, -0.5, 0, 0.5, 1]
    assert histogram.centres.tolist() == [-0.75, -0.25, 0.25, 0.75]


@pytest.mark.parametrize("reach", [1e-29, 1e-6, 3.0e38])
def test_any_size_of_values(reach):
    values = np.linspace(-reach, reach, 1000).astype(np.float32)
    assert of(values, 8).counts.sum() == 1000
    assert of(values, 8).counts.max() <= 126


@pytest.mark.parametrize("kept", [Range(-5.0, 5.0), Range(-3.0, 2.0), Range(-1.0, 4.0)])
def test_the_predicted_error_is_that_of_quantizing_the_values(kept):
    values = np.random.default_rng(1).laplace(size=200_000).astype(np.float32)
    step = (kept.high - kept.low) / 255
    zero = round(-kept.low / step)
    quantized = (np.clip(np.rint(values / step) + zero, 0, 255) - zero) * step
    error = float(((quantized - values) ** 2).sum())
    predicted = squared_errors(of(values), np.array([kept.low]), np.array([kept.high]))[0]
    assert predicted == pytest.approx(error, rel=0.1)
    true_db = 10 * math.log10(float((values**2).sum()) / error)
    assert noise_db(of(values), kept) == pytest.approx(true_db, abs=0.5)


def test_the_share_outside_a_range():
    values = np.linspace(-1, 1, 10_001).astype(np.float32)
    assert outside_share(of(values), Range(-1.0, 1.0)) == 0
    assert outside_share(of(values), Range(-0.5, 0.9)) == pytest.approx(0.3, abs=0.002)
    assert outside_share(Histogram(np.zeros(4, np.int64), 1.0), Range(0.0, 1.0)) == 0


def error_of(values, kept):
    step = (kept.high - kept.low) / 255
    zero = round(-kept.low / step)
    quantized = (np.clip(np.rint(values / step) + zero, 0, 255) - zero) * step
    return float(((quantized - values) ** 2).sum())


def test_no_other_method_loses_less(curve, seen_of):
    seen = seen_of(curve)
    values = curve.astype(np.float32)
    minimum = error_of(values, range_of(MSE, seen, QuantSettings()))
    for method in METHODS:
        other = error_of(values, range_of(method, seen, QuantSettings()))
        assert minimum <= other * 1.1 + 1e-9, method.name


def test_it_is_about_as_good_as_trying_every_range(seen_of):
    values = np.random.default_rng(1).standard_t(3, 5_000).astype(np.float32)
    seen = seen_of(values)
    found = error_of(values, range_of(MSE, seen, QuantSettings()))
    shares = np.linspace(0.05, 1, 60)
    type_of = type(range_of(MSE, seen, QuantSettings()))
    best = min(error_of(values, type_of(seen.low * a, seen.high * b)) for a in shares for b in shares)
    assert found <= best * 1.05
