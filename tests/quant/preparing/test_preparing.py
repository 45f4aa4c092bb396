"""Channels evened out between two layers: the same floats, and nearer to them in eight bits."""

import dataclasses

import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.data.samples import Samples
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.model import load, save
from edgeopt.quant.calibrate import calibrate
from edgeopt.quant.layers import find_layers
from edgeopt.quant.preparing import equalized, factors_for, smoothing
from edgeopt.quant.records import QuantSettings
from edgeopt.quant.schemes import SchemeContext
from edgeopt.quant.sensitivity.switchboard import GatedModel
from edgeopt.quant.write import tensors_wanted, write
from tests.conftest import narrow, seeded, write_onnx

SETTINGS = QuantSettings()
SPREAD = np.float32(10.0) ** np.linspace(-2, 1.3, 16, dtype=np.float32)
PICTURES = {"x": [1, 3, 12, 12]}


def uneven(*shape, seed=0):
    """Weights whose first sixteen results differ much in size."""
    return seeded(*shape, seed=seed) * SPREAD.reshape(-1, *[1] * (len(shape) - 1))


def chain(path, between=("Relu",), **changes):
    """Conv, what lies between, a depth-wise Conv, a Relu, and a Conv of all channels."""
    weights = {"w": uneven(16, 3, 3, 3), "b": uneven(16, seed=1), "d": seeded(16, 1, 3, 3, seed=2),
               "v": seeded(8, 16, 1, 1, seed=3), **changes}  # fmt: skip
    nodes = [("Conv", ["x", "w", "b"], ["c0"], {})]
    nodes += [
        (op, [f"c{k}"], [f"c{k + 1}"], {"kernel_shape": [2, 2]} if "Pool" in op else {})
        for k, op in enumerate(between)
    ]
    nodes += [
        ("Conv", [f"c{len(between)}", "d"], ["e"], {"group": 16}),
        ("Relu", ["e"], ["f"], {}),
        ("Conv", ["f", "v"], ["y"], {}),
    ]
    size = 8 - ("MaxPool" in between)
    return write_onnx(path, nodes, weights, PICTURES, {"y": [1, 8, size, size]})


def rows(path, **changes):
    """Two fully connected layers."""
    weights = {"w": uneven(16, 24).T.copy(), "v": seeded(8, 16, seed=3), "b": uneven(1, 16, seed=1), **changes}
    weights["b"] = np.float32(SPREAD[None])
    nodes = [
        ("Gemm", ["x", "w", "b"], ["a"], {}),
        ("Relu", ["a"], ["r"], {}),
        ("Gemm", ["r", "v"], ["y"], {"transB": 1}),
    ]
    return write_onnx(path, nodes, weights, {"x": [1, 24]}, {"y": [1, 8]})


def data_for(shape):
    return Samples({"x": seeded(20, *shape[1:], seed=9) * 8}, {"x": len(shape)})


def seen_in(path, data):
    model = load(path).ir
    layers = find_layers(model, {"x": tuple(data.feeds(0)["x"].shape)})
    return model, layers, calibrate(path, data, tensors_wanted(model, layers, SETTINGS), SETTINGS)


def answers(path, data):
    # With pairs as they stand: fused, products overflow on some CPUs.
    session = backend_named("onnxruntime-cpu").load(path, {"graph_level": "none"})
    found = [session.run(data.feeds(k)) for k in range(len(data))]
    session.close()
    return found


@pytest.mark.parametrize(
    ("make", "shape"),
    [(chain, [1, 3, 12, 12]), (lambda path: chain(path, ("Relu", "MaxPool")), [1, 3, 12, 12]), (rows, [1, 24])],
    ids=("relu", "relu-and-pool", "fully-connected"),
)
def test_the_floats_stay_and_eight_bits_come_nearer(tmp_path, make, shape):
    path, data = make(tmp_path / "source.onnx"), data_for(shape)
    wanted = answers(path, data)
    model, layers, found = seen_in(path, data)
    prepared = equalized(model, layers, found.seen)
    assert prepared.changes[0].nodes[0] == layers[0].name
    save(prepared.model, tmp_path / "even.onnx")
    assert compare_outputs(wanted, answers(tmp_path / "even.onnx", data)).snr_db > 100

    reached = []
    for file in (path, tmp_path / "even.onnx"):
        graph, some, calibrated = seen_in(file, data)
        context = SchemeContext("onnxruntime-cpu", SETTINGS, calibrated.ranges)
        save(write(graph, some, {each.name: "int8" for each in some}, context).model, tmp_path / "int8.onnx")
        reached.append(compare_outputs(wanted, answers(tmp_path / "int8.onnx", data)).snr_db)
    assert reached[1] > reached[0]


def test_the_model_that_is_given_stays_as_it_is(tmp_path):
    path, data = chain(tmp_path / "source.onnx"), data_for([1, 3, 12, 12])
    model, layers, found = seen_in(path, data)
    before = model.graph.initializers["w"].const_value.numpy().copy()
    equalized(model, layers, found.seen)
    assert (model.graph.initializers["w"].const_value.numpy() == before).all()


@pytest.mark.parametrize("between", [("Sigmoid",), ("Clip",)])
def test_what_knows_how_large_channels_are_bars_the_way(tmp_path, between):
    path, data = chain(tmp_path / "source.onnx", between), data_for([1, 3, 12, 12])
    model, layers, found = seen_in(path, data)
    changed = [node for change in equalized(model, layers, found.seen).changes for node in change.nodes]
    assert layers[0].name not in changed


def test_a_second_reader_bars_the_way(tmp_path):
    nodes = [
        ("Conv", ["x", "w"], ["c"], {}),
        ("Relu", ["c"], ["r"], {}),
        ("Conv", ["r", "v"], ["p"], {}),
        ("ReduceMean", ["r"], ["m"], {"axes": [1], "keepdims": 1}),
        ("Add", ["p", "m"], ["y"], {}),
    ]
    weights = {"w": uneven(16, 3, 3, 3), "v": seeded(8, 16, 1, 1, seed=3)}
    path = write_onnx(tmp_path / "m.onnx", nodes, weights, PICTURES, {"y": [1, 8, 10, 10]})
    model, layers, found = seen_in(path, data_for([1, 3, 12, 12]))
    assert equalized(model, layers, found.seen).changes == ()


def test_shared_weights_are_left_alone(tmp_path):
    nodes = [
        ("Conv", ["x", "w"], ["c"], {}),
        ("Relu", ["c"], ["r"], {}),
        ("Conv", ["r", "v"], ["p"], {}),
        ("Conv", ["x", "w"], ["q"], {}),
        ("Conv", ["q", "u"], ["s"], {}),
        ("Add", ["p", "s"], ["y"], {}),
    ]
    weights = {"w": uneven(16, 3, 3, 3), "v": seeded(8, 16, 1, 1, seed=3), "u": seeded(8, 16, 1, 1, seed=4)}
    path = write_onnx(tmp_path / "m.onnx", nodes, weights, PICTURES, {"y": [1, 8, 10, 10]})
    model, layers, found = seen_in(path, data_for([1, 3, 12, 12]))
    assert equalized(model, layers, found.seen).changes == ()


SETTINGS_SMOOTHING = QuantSettings(reduce_range=narrow())
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
    found = calibrate(model, data, tensors_wanted(graph, layers, SETTINGS_SMOOTHING), SETTINGS_SMOOTHING)
    return graph, layers, found


def context_of(known, backend, smooth=True):
    graph, layers, found = known
    factors, ranges = smoothing(graph, layers, found.seen)
    context = SchemeContext(backend, SETTINGS_SMOOTHING, {**found.ranges, **ranges}, smoothing=factors)
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
    with GatedModel(graph, layers, {layer.name: ("int8",) for layer in layers}, context) as board:
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
