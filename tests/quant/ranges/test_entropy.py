"""Against onnxruntime's own calibrator, which computes the same bin by bin."""

import contextlib
import io

import numpy as np
import pytest

from edgeopt.quant.ranges import ENTROPY, Histogram, range_of
from edgeopt.quant.records import QuantSettings

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


@pytest.mark.parametrize("seed", range(3))
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
