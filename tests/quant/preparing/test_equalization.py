"""Channels evened out between two layers: the same floats, and nearer to them in eight bits."""

import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.data.samples import Samples
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.model import load, save
from edgeopt.quant.calibrate import calibrate
from edgeopt.quant.forms import FormContext
from edgeopt.quant.layers import find_layers
from edgeopt.quant.preparing import equalized
from edgeopt.quant.records import QuantSettings
from edgeopt.quant.write import tensors_wanted, write
from tests.conftest import seeded, write_onnx

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
        context = FormContext("onnxruntime-cpu", SETTINGS, calibrated.ranges)
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
