import math

import numpy as np
import pytest

from edgeopt.quant.ranges import Histogram, count, empty, noise_db, outside_share, squared_errors
from edgeopt.quant.records import Range


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
