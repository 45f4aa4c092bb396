"""Repair of a model that NNCF quantizes too coarsely in one layer."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgeopt.backends import backend_named
from edgeopt.backends.openvino.model import read_model
from edgeopt.errors import ModelError
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.quant.libraries import quantize_by_nncf
from edgeopt.quant.repair import repair

pytestmark = pytest.mark.processes

FLOOR_DB = 26.0
LAYERS = 6
SPOILED = 3
GENEROUS_S = 120.0


def network(path, outlier):
    """Convolutions in a row; what `SPOILED` reads has one channel that is `outlier` times as large as others."""
    random = np.random.default_rng(3)
    nodes, constants, value, channels = [], [], "x", 3
    for layer in range(LAYERS):
        weights = random.standard_normal((16, channels, 3, 3)) / np.sqrt(9 * channels / 2)
        bias = 0.1 * random.standard_normal(16)
        if layer == SPOILED - 1:
            weights[5] *= outlier
            bias[5] *= outlier
        if layer == SPOILED:
            weights[:, 5] /= outlier
        for name, array in ((f"w{layer}", weights), (f"b{layer}", bias)):
            constants.append(numpy_helper.from_array(array.astype(np.float32), name))
        out = "y" if layer == LAYERS - 1 else f"relu{layer}"
        nodes.append(
            helper.make_node(
                "Conv", [value, f"w{layer}", f"b{layer}"], [f"conv{layer}"], name=f"conv{layer}", pads=[1] * 4
            )
        )
        nodes.append(helper.make_node("Relu", [f"conv{layer}"], [out], name=f"act{layer}"))
        value, channels = out, 16
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, 16, 16])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


@pytest.fixture(scope="module")
def samples():
    images = np.random.default_rng(8).standard_normal((36, 1, 3, 16, 16)).astype(np.float32)
    return [{"x": image} for image in images]


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory):
    return network(tmp_path_factory.mktemp("spoiled") / "model.onnx", 300.0)


def repaired(base, out, calibration, choosing, floor_db):
    quantized = out.with_name("unpacked.xml")
    settings = {"transformer": False, "reduce_range": True}  # nothing saturates, on any processor
    quantize_by_nncf(base, out.with_name("whole.xml"), calibration, **settings, unpacked=quantized)
    return repair(base, quantized, out, choosing, floor_db, limit_s=GENEROUS_S)


def accuracy_db(source, made, samples):
    sessions = [backend_named("openvino-cpu").load(path, {"precision": "f32"}) for path in (source, made)]
    try:
        reference, got = ([session.run(each) for each in samples] for session in sessions)
    finally:
        for session in sessions:
            session.close()
    return compare_outputs(reference, got).snr_db


def layers_in_eight_bits(path):
    """The convolutions of a written model whose weights are whole numbers."""
    found = set()
    for op in read_model(path).get_ordered_ops():
        if op.get_type_name() != "Convolution":
            continue
        weights = op.input_value(1).get_node()
        while weights.get_type_name() != "Constant":
            weights = weights.input_value(0).get_node()
        if weights.get_element_type().get_type_name() in ("i8", "u8"):
            found.add(op.get_friendly_name().removesuffix("/WithoutBiases"))
    return found


def test_layer_with_outlier_channel_returns_to_float(spoiled, samples, tmp_path):
    calibration, choosing, proving = samples[:12], samples[12:24], samples[24:]
    whole, out = tmp_path / "whole.xml", tmp_path / "repaired.xml"
    made = repaired(spoiled, out, calibration, choosing, FLOOR_DB)
    assert accuracy_db(spoiled, whole, proving) < FLOOR_DB
    assert made.before_db < FLOOR_DB <= made.after_db
    assert accuracy_db(spoiled, out, proving) >= FLOOR_DB
    assert f"conv{SPOILED}" in made.returned
    assert layers_in_eight_bits(out) == {f"conv{layer}" for layer in range(LAYERS)} - set(made.returned)
    assert len(layers_in_eight_bits(out)) > LAYERS / 2


def test_repair_says_what_it_returned_and_what_more_would_give(spoiled, samples, tmp_path):
    made = repaired(spoiled, tmp_path / "out.xml", samples[:12], samples[12:24], FLOOR_DB)
    returned = [change for change in made.entry.applied if change.what == "returned to float"]
    assert returned[0].nodes == made.returned
    assert 0 < made.groups_returned < made.groups
    assert 0 < made.work_share < 1
    assert made.frontier[0].groups_returned == 0
    assert made.frontier[0].snr_db < FLOOR_DB < made.frontier[-1].snr_db


def test_model_that_reaches_the_floor_stays_in_eight_bits(samples, tmp_path):
    model = network(tmp_path / "model.onnx", 1.0)
    made = repaired(model, tmp_path / "out.xml", samples[:12], samples[12:24], FLOOR_DB - 6)
    assert made.returned == ()
    assert made.before_db == made.after_db >= FLOOR_DB - 6
    assert layers_in_eight_bits(tmp_path / "out.xml") == {f"conv{layer}" for layer in range(LAYERS)}


def test_floor_beyond_eight_bits_is_refused(spoiled, samples, tmp_path):
    with pytest.raises(ModelError, match=r"does not reach 110 dB with .* of \d+ groups"):
        repaired(spoiled, tmp_path / "out.xml", samples[:12], samples[12:24], 110.0)
