import time

import numpy as np
import pytest

from edgeopt.data.samples import Samples
from edgeopt.errors import UsageError
from edgeopt.quant.calibrate import calibrate
from edgeopt.quant.ranges import METHODS
from edgeopt.quant.records import QuantSettings, Range
from tests.conftest import seeded, write_onnx

TENSORS = ["x", "c", "p", "y"]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_tensor_gets_a_range_by_every_method(conv_model, conv_samples, method):
    begin = time.perf_counter()
    found = calibrate(conv_model, conv_samples, TENSORS, QuantSettings(calibration=method.name))
    assert 0 < found.seconds <= time.perf_counter() - begin
    assert set(found.ranges) == set(TENSORS)
    assert all(kept.low <= 0 <= kept.high and kept.low < kept.high for kept in found.ranges.values())
    assert found.seen["c"].channel_highs.shape == (16,)


def test_minmax_holds_every_value(conv_model, conv_samples):
    found = calibrate(conv_model, conv_samples, ["x"], QuantSettings())
    values = conv_samples.arrays["x"]
    assert found.ranges == {"x": Range(float(values.min()), float(values.max()))}


def test_an_outlier_stretches_minmax_alone(conv_model, conv_samples):
    images = conv_samples.arrays["x"].copy()
    images[7, 0, 0, 0] = 500
    samples = Samples({"x": images}, {"x": 4})
    calm = calibrate(conv_model, samples, ["x"], QuantSettings(calibration="percentile", percentile=99.9))
    assert calm.ranges["x"].high < 5
    found = calibrate(conv_model, samples, ["x", "c"], QuantSettings())
    assert found.ranges["x"].high == 500
    assert [(one.kind, one.sample, one.tensor) for one in found.findings] == [("outlier", 7, "x")]


def test_what_is_not_finite_has_no_range(tmp_path):
    path = write_onnx(
        tmp_path / "log.onnx",
        [("Log", ["x"], ["l"], {}), ("MatMul", ["l", "w"], ["y"], {})],
        {"w": seeded(4, 2)},
        {"x": [1, 4]},
        {"y": [1, 2]},
    )
    rows = np.array([[1, 2, 3, 4], [0, 1, 2, 3]], np.float32)
    found = calibrate(path, Samples({"x": rows}, {"x": 2}), ["x", "l"], QuantSettings())
    assert set(found.ranges) == {"x"}
    assert [one.kind for one in found.findings if one.tensor == "l"] == ["not finite"]


def test_two_runs_find_the_same(conv_model, conv_samples):
    settings = QuantSettings(calibration="entropy")
    first, second = (calibrate(conv_model, conv_samples, TENSORS, settings).ranges for _ in range(2))
    assert first == second


def test_a_method_that_there_is_not(conv_model, conv_samples):
    with pytest.raises(UsageError, match="no calibration named 'guess'"):
        calibrate(conv_model, conv_samples, TENSORS, QuantSettings(calibration="guess"))
