"""Rounding by the data: nearer to the float model with the same bits, and weights that the form holds."""

import dataclasses

import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.data.samples import Samples
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.model import load, save
from edgeopt.quant.calibrate import calibrate
from edgeopt.quant.forms import FormContext, form_named
from edgeopt.quant.layers import find_layers
from edgeopt.quant.preparing.rounding import round_by_moments, rounding
from edgeopt.quant.settings import QuantSettings
from edgeopt.quant.write import tensors_wanted, write
from tests.conftest import seeded, write_onnx

SETTINGS = QuantSettings(block_size=32, group_size=32)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    nodes = [
        ("MatMul", ["x", "first"], ["m"], {}),
        ("Add", ["m", "shift"], ["a"], {}),
        ("Relu", ["a"], ["r"], {}),
        ("Gemm", ["r", "second"], ["y"], {"transB": 1}),
    ]
    weights = {"first": seeded(64, 96), "shift": seeded(96, seed=1), "second": seeded(24, 96, seed=2)}
    path = tmp_path_factory.mktemp("rounding") / "rows.onnx"
    return write_onnx(path, nodes, weights, {"x": ["rows", 64]}, {"y": ["rows", 24]})


@pytest.fixture(scope="module")
def data():
    """Inputs that go together, as those of trained models do."""
    random = np.random.default_rng(4)
    mixed = random.standard_normal((24, 32, 12)) @ random.standard_normal((12, 64))
    rows = (mixed + 0.1 * random.standard_normal((24, 32, 64))).astype(np.float32)
    return Samples({"x": rows}, {"x": 2})


def context_of(path, data):
    model = load(path).ir
    layers = find_layers(model, {"x": (32, 64)})
    ranges = calibrate(path, data, tensors_wanted(model, layers, SETTINGS), SETTINGS).ranges
    return model, layers, FormContext("openvino-cpu", SETTINGS, ranges)


def ratio_db(path, written, data, folder):
    """Of the written model to the float one, in floats."""
    save(written, folder / "written.onnx")
    answers = []
    for file in (path, folder / "written.onnx"):
        session = backend_named("onnxruntime-cpu").load(file, {})
        answers.append([session.run(data.feeds(k)) for k in range(len(data))])
        session.close()
    return compare_outputs(*answers).snr_db


@pytest.mark.parametrize(("form", "least_db"), [("w8", 3.0), ("w4", 3.0)])
def test_the_same_bits_keep_more_on_samples_not_seen(model, data, tmp_path, form, least_db):
    source, layers, context = context_of(model, data)
    choices = {layer.name: form for layer in layers}
    found = rounding(source, layers, choices, context, data[range(16)])
    assert set(found.weights) == {"first", "second"}
    assert found.changes[0].nodes == ("MatMul_0", "Gemm_3")
    rounded = dataclasses.replace(context, weights=found.weights)
    unseen = data[range(16, 24)]
    before, after = (
        ratio_db(model, write(source, layers, choices, each).model, unseen, tmp_path)
        for each in (context, rounded)
    )
    assert after > before + least_db


@pytest.mark.parametrize("form", ["int8", "int8-groups", "w8", "w4"])
def test_the_form_holds_these_weights_without_an_error(model, data, form):
    source, layers, context = context_of(model, data)
    found = rounding(source, layers, {layer.name: form for layer in layers}, context, data[range(16)])
    assert found.weights
    for layer in layers:
        weight = found.weights[layer.weight]
        held = form_named(form).fake_weights(weight, layer, context)
        assert np.allclose(held, weight, rtol=1e-5, atol=1e-7)
        assert weight.shape == layer.weight_shape


def test_without_a_tie_between_inputs_the_nearest_values_stay():
    random = np.random.default_rng(0)
    matrix = random.standard_normal((20, 7)).astype(np.float32)
    scales = np.full(matrix.shape, 0.25, np.float32)
    moments = np.diag(random.uniform(1, 2, 20)).astype(np.float32)
    got = round_by_moments(matrix, scales, -127, 127, np.zeros(matrix.shape, bool), moments)
    assert np.array_equal(got, np.rint(matrix / 0.25) * np.float32(0.25))


@pytest.mark.parametrize("moments", [np.zeros((20, 20)), np.ones((20, 20))])
def test_inputs_that_are_constant_or_dead_do_no_harm(moments):
    matrix = seeded(20, 7)
    scales = np.full(matrix.shape, 0.05, np.float32)
    got = round_by_moments(matrix, scales, -127, 127, np.zeros(matrix.shape, bool), moments.astype(np.float32))
    assert np.isfinite(got).all()
    assert np.array_equal(np.rint(got / 0.05) * np.float32(0.05), got)


def test_what_cannot_be_rounded_so_is_told(conv_model):
    source = load(conv_model).ir
    layers = find_layers(source, {"x": (1, 3, 16, 16)})
    images = Samples({"x": np.random.default_rng(1).random((6, 3, 16, 16), np.float32)}, {"x": 4})
    choices = {layer.name: "w8" for layer in layers}
    found = rounding(source, layers, choices, FormContext("openvino-cpu", SETTINGS), images)
    reasons = {node: each.reason for each in found.refused for node in each.nodes}
    assert reasons["Conv_0"] == "it is not a product with a weight matrix"
    late = rounding(source, layers, choices, FormContext("openvino-cpu", SETTINGS), images, limit_s=0.0)
    assert late.weights == {}
    assert "the time was up" in {each.reason for each in late.refused}
