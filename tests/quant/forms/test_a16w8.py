"""Sixteen bits for activations: with steps to spare, the range holds more than the samples that calibrated."""

import numpy as np
import pytest

from edgeopt.quant.forms.qdq import kept_range
from tests.conftest import seeded, write_onnx
from tests.quant.small_models import case, run, snr_db


@pytest.fixture(scope="module")
def clipped(models):
    """A Clip that lets through up to 0.1, and a pool behind it that shares its range."""
    nodes = [
        ("Conv", ["x", "w0", "b0"], ["c0"], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        ("Clip", ["c0", "low", "high"], ["k0"], {}),
        ("MaxPool", ["k0"], ["p0"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Conv", ["p0", "w1"], ["y"], {"kernel_shape": [1, 1]}),
    ]
    weights = {
        "w0": seeded(32, 16, 3, 3, seed=1) * np.float32(0.1),
        "b0": seeded(32, seed=2) * np.float32(0.1),
        "w1": seeded(16, 32, 1, 1, seed=3),
        "low": np.array(0.0, np.float32),
        "high": np.array(0.1, np.float32),
    }
    path = write_onnx(models / "clipped.onnx", nodes, weights, {"x": [1, 16, 8, 8]}, {"y": [1, 16, 4, 4]})
    return case(path, [{"x": seeded(1, 16, 8, 8, seed=k)} for k in range(8)])


def test_samples_larger_than_those_that_calibrated_are_not_cut_off(clipped, tmp_path):
    path = clipped.written("a16w8", clipped.context("onnxruntime-cpu"), tmp_path / "q.onnx")
    larger = [{"x": np.float32(1.8) * feeds["x"]} for feeds in clipped.feeds]
    assert snr_db(run(clipped.path, larger), run(path, larger)) > 35


def test_eight_bits_keep_the_range_of_the_samples(clipped):
    context = clipped.context("onnxruntime-cpu")
    values = [value for node in clipped.model.graph for value in node.inputs if value.name in context.ranges]
    assert values
    assert [kept_range(value, context, 8) for value in values] == [context.ranges[value.name] for value in values]
