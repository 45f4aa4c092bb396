"""The mean error of rounding off the biases: found on some samples, seen on others."""

import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.data.samples import Samples
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.model import load, save
from edgeopt.quant.calibrate import calibrate
from edgeopt.quant.forms import FormContext
from edgeopt.quant.layers import find_layers
from edgeopt.quant.preparing.bias_correction import FEWEST_SAMPLES, bias_correction
from edgeopt.quant.settings import QuantSettings
from edgeopt.quant.write import tensors_wanted, write
from tests.conftest import seeded, write_onnx

# One scale for all channels leaves the small ones few steps: the kind of error that has a mean.
SETTINGS = QuantSettings(per_channel=False)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Without a bias, with one, and with a constant added to a matrix product."""
    spread = np.geomspace(1.0, 0.01, 16, dtype=np.float32)
    nodes = [
        ("Conv", ["x", "first"], ["c"], {"pads": [1, 1, 1, 1]}),
        ("Relu", ["c"], ["r"], {}),
        ("Conv", ["r", "second", "bias"], ["d"], {}),
        ("Relu", ["d"], ["s"], {}),
        ("GlobalAveragePool", ["s"], ["p"], {}),
        ("Flatten", ["p"], ["flat"], {}),
        ("MatMul", ["flat", "classes"], ["m"], {}),
        ("Add", ["m", "shift"], ["a"], {}),
        ("MatMul", ["a", "last"], ["y"], {}),
    ]
    weights = {
        "first": (seeded(16, 3, 3, 3) + 0.1) * spread.reshape(-1, 1, 1, 1),
        "second": seeded(16, 16, 3, 3, seed=1) / spread.reshape(1, -1, 1, 1),
        "bias": seeded(16, seed=2),
        "classes": seeded(16, 12, seed=3),
        "shift": seeded(12, seed=4),
        "last": seeded(12, 8, seed=5),
    }
    path = tmp_path_factory.mktemp("bias") / "bias.onnx"
    return write_onnx(path, nodes, weights, {"x": ["batch", 3, 12, 12]}, {"y": ["batch", 8]})


@pytest.fixture(scope="module")
def data():
    return Samples({"x": np.random.default_rng(9).random((24, 3, 12, 12), np.float32)}, {"x": 4})


@pytest.fixture(scope="module")
def parts(model, data):
    source = load(model).ir
    layers = find_layers(source, {"x": (1, 3, 12, 12)})
    ranges = calibrate(model, data, tensors_wanted(source, layers, SETTINGS), SETTINGS).ranges
    choices = {layer.name: "int8" for layer in layers if not layer.reason}
    return source, layers, choices, FormContext("openvino-cpu", SETTINGS, ranges)


def answers(path, data):
    session = backend_named("onnxruntime-cpu").load(path, {})
    try:
        return [session.run(data.feeds(k)) for k in range(len(data))]
    finally:
        session.close()


def test_less_is_lost_on_samples_not_seen(model, data, parts, tmp_path):
    source, layers, choices, context = parts
    found = bias_correction(source, layers, choices, context, data[range(12)])
    unseen = data[range(12, 24)]
    wanted, ratios = answers(model, unseen), []
    for each in (source, found.model):
        save(write(each, layers, choices, context).model, tmp_path / "written.onnx")
        ratios.append(compare_outputs(wanted, answers(tmp_path / "written.onnx", unseen)).snr_db)
    assert ratios[1] > ratios[0] + 3


def test_every_kind_of_bias_is_changed_and_the_source_is_not(model, data, parts):
    source, layers, choices, context = parts
    found = bias_correction(source, layers, choices, context, data)
    assert found.changes[0].nodes == ("Conv_0", "Conv_2", "MatMul_6")
    assert found.changes[0].what == "subtracted the mean rounding error from the biases of 3 products"
    assert [(each.nodes, each.reason) for each in found.refused] == [
        (("MatMul_8",), "no constant is added to its result")
    ]
    nodes = {node.name: node for node in found.model.graph}
    assert len(nodes["Conv_0"].inputs) == 3
    assert nodes["Conv_2"].inputs[2].name != "bias"
    assert {"bias", "shift"} <= {value.name for value in source.graph.initializers.values()}
    assert len(next(node for node in source.graph if node.name == "Conv_0").inputs) == 2


def test_few_samples_tell_no_mean(data, parts):
    source, layers, choices, context = parts
    found = bias_correction(source, layers, choices, context, data[range(FEWEST_SAMPLES - 1)])
    assert found.changes == ()
    assert found.refused[0].reason == "3 samples are too few for a mean: it needs 4"


def test_float_layers_are_left_alone(data, parts):
    source, layers, _, context = parts
    found = bias_correction(source, layers, {}, context, data)
    assert (found.changes, found.refused) == ((), ())
