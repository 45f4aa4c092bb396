"""Tensors as calibration sees them, from plain arrays."""

import numpy as np
import pytest

from edgeopt.quant.ranges import ObservedRange, count, empty


@pytest.fixture
def seen_of():
    def make(*samples, bins=2048):
        arrays = [np.asarray(sample, np.float32).reshape(-1) for sample in samples]
        reach = max(float(np.abs(array).max()) for array in arrays)
        histogram = empty(reach, bins) if reach > 1e-30 else None
        for array in arrays:
            if histogram is not None:
                count(histogram, array)
        lows, highs = (np.array([float(edge(array)) for array in arrays]) for edge in (np.min, np.max))
        return ObservedRange("t", lows, highs, histogram, elements=arrays[0].size)

    return make


CURVES = {
    "bell": lambda random: random.standard_normal(20_000),
    "bell, cut at 0": lambda random: np.maximum(random.standard_normal(20_000), 0),
    "laplace": lambda random: random.laplace(size=20_000),
    "even": lambda random: random.uniform(0.2, 1, 20_000),
    "below 0": lambda random: -random.gamma(2, 1, 20_000),
    "one outlier": lambda random: np.append(random.standard_normal(20_000), 90.0),
    "mostly 0": lambda random: np.where(random.random(20_000) < 0.01, random.standard_normal(20_000), 0),
    "few": lambda random: random.standard_normal(7),
}


@pytest.fixture(params=CURVES)
def curve(request):
    return CURVES[request.param](np.random.default_rng(3))
