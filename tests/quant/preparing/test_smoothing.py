"""Channels evened out before eight bits: nearer to the float model, with one node for all who read a tensor."""

import dataclasses

import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.data.samples import Samples
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.model import load, save
from edgeopt.quant.calibrate import calibrate
from edgeopt.quant.forms import FormContext
from edgeopt.quant.layers import find_layers
from edgeopt.quant.preparing import factors_for, smoothing
from edgeopt.quant.records import QuantSettings
from edgeopt.quant.sensitivity.switchboard import Switchboard
from edgeopt.quant.write import tensors_wanted, write
from tests.conftest import narrow, seeded, write_onnx

SETTINGS = QuantSettings(reduce_range=narrow())
CHANNELS = 64


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Two products that read one tensor, as queries and keys do, and one that reads their sum."""
    nodes = [
        ("MatMul", ["x", "first"], ["a"], {}),
        ("MatMul", ["x", "second"], ["b"], {}),
        ("Add", ["a", "b"], ["s"], {}),
        ("Gemm", ["s", "third"], ["y"], {"transB": 1}),
    ]
    weights = {
        "first": seeded(CHANNELS, 96),
        "second": seeded(CHANNELS, 96, seed=1),
        "third": seeded(24, 96, seed=2),
    }
    path = tmp_path_factory.mktemp("smoothing") / "rows.onnx"
    return write_onnx(path, nodes, weights, {"x": ["rows", CHANNELS]}, {"y": ["rows", 24]})


@pytest.fixture(scope="module")
def data():
    """Three channels are far larger than the others."""
    rows = np.random.default_rng(3).standard_normal((16, 32, CHANNELS)).astype(np.float32)
    rows[:, :, [5, 17, 40]] *= 60
    return Samples({"x": rows}, {"x": 2})


@pytest.fixture(scope="module")
def known(model, data):
    """The graph, its layers, what was seen, and the ranges."""
    graph = load(model).ir
    layers = find_layers(graph, {"x": (32, CHANNELS)})
    found = calibrate(model, data, tensors_wanted(graph, layers, SETTINGS), SETTINGS)
    return graph, layers, found


def context_of(known, backend, smooth=True):
    graph, layers, found = known
    factors, ranges = smoothing(graph, layers, found.seen)
    context = FormContext(backend, SETTINGS, {**found.ranges, **ranges}, smoothing=factors)
    return context if smooth else dataclasses.replace(context, smoothing={})


def _kinds(model):
    return [node.op_type for node in model.graph]


def in_eight_bits(layers):
    return {layer.name: "int8" for layer in layers}


def ratio_db(model, variant, data, backend):
    answers = []
    for path, name in ((model, "onnxruntime-cpu"), (variant, backend)):
        session = backend_named(name).load(path, {"precision": "f32"} if name.startswith("openvino") else {})
        answers.append([session.run(data.feeds(k)) for k in range(len(data))])
        session.close()
    return compare_outputs(*answers).snr_db


@pytest.mark.parametrize("backend", ["onnxruntime-cpu", "openvino-cpu"])
def test_large_channels_cost_the_others_less(known, model, data, tmp_path, backend):
    graph, layers, _ = known
    reached = {}
    for smooth in (False, True):
        written = write(graph, layers, in_eight_bits(layers), context_of(known, backend, smooth)).model
        save(written, tmp_path / "written.onnx")
        reached[smooth] = ratio_db(model, tmp_path / "written.onnx", data, backend)
    assert reached[True] > reached[False] + 4


def test_layers_of_one_tensor_share_one_division(known):
    graph, layers, _ = known
    written = write(graph, layers, in_eight_bits(layers[:2]), context_of(known, "openvino-cpu")).model
    assert _kinds(written).count("Mul") == 1
    one = write(graph, layers, {layers[1].name: "int8"}, context_of(known, "openvino-cpu")).model
    assert _kinds(one).count("Mul") == 1
    assert _kinds(graph).count("Mul") == 0


def test_other_forms_read_what_they_always_read(known):
    graph, layers, _ = known
    choices = {layer.name: "int8-dynamic" for layer in layers}
    written = write(graph, layers, choices, context_of(known, "onnxruntime-cpu")).model
    weights = [value.const_value.numpy() for value in written.graph.initializers.values()]
    assert "x/smoothed" not in {value.name for node in written.graph for value in node.outputs}
    assert any(weight.dtype in {np.dtype(np.int8), np.dtype(np.uint8)} for weight in weights)


def test_a_simulation_is_what_is_written(known, model, data, tmp_path):
    graph, layers, _ = known
    context, choices = context_of(known, "onnxruntime-cpu"), in_eight_bits(layers)
    save(write(graph, layers, choices, context).model, tmp_path / "written.onnx")
    session = backend_named("onnxruntime-cpu").load(model, {})
    wanted = [session.run(data.feeds(k)) for k in range(len(data))]
    session.close()
    with Switchboard(graph, layers, {layer.name: ("int8",) for layer in layers}, context) as board:
        simulated = compare_outputs(wanted, board.run_all(choices, data)).snr_db
    assert simulated == pytest.approx(ratio_db(model, tmp_path / "written.onnx", data, "onnxruntime-cpu"), abs=1)


def test_even_channels_are_left_alone():
    even = np.full(CHANNELS, 3.0, np.float32)
    assert factors_for(-even, even, seeded(CHANNELS, 32)) is None


def test_channels_that_are_never_used_have_no_factor():
    high = np.full(CHANNELS, 3.0, np.float32)
    high[[2, 9]] = 0, 300
    weights = seeded(CHANNELS, 32)
    weights[4] = 0
    factors = factors_for(-high, high, weights)
    assert np.isfinite(factors).all()
    assert (factors > 0).all()
    assert factors[2] == factors[4] == 1
    assert factors[9] > 3 * factors[0]


def test_a_model_without_such_layers_has_none(known):
    graph, layers, found = known
    assert smoothing(graph, [layer for layer in layers if layer.operator == "Conv"], found.seen) == ({}, {})
    factors, ranges = smoothing(graph, layers[:2], found.seen)
    assert {each.tensor for each in factors.values()} == set(ranges) == {"x/smoothed"}
    assert list(factors) == [layers[0].name, layers[1].name]
