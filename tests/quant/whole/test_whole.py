"""What the runtimes' own libraries make of a whole model, and that it runs where it is for."""

import logging
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgeopt.backends import backend_named
from edgeopt.backends.openvino.model import read_model
from edgeopt.errors import ModelError
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.quant import libraries

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def samples(conv_data):
    with np.load(conv_data) as data:
        return [{"x": data["x"][k][None]} for k in range(8)]


def answers(path, backend, samples, options=None):
    session = backend_named(backend).load(path, options or {})
    try:
        return [session.run(each) for each in samples]
    finally:
        session.close()


def accuracy_db(source, made, backend, samples):
    return compare_outputs(
        answers(source, "onnxruntime-cpu", samples), answers(made, backend, samples, {"threads": 1})
    ).snr_db


MAKERS = {
    "nncf-int8": (
        "openvino-cpu",
        "model.xml",
        lambda *given: libraries.quantize_by_nncf(*given, transformer=False),
    ),
    "nncf-transformer": (
        "openvino-cpu",
        "model.xml",
        lambda *given: libraries.quantize_by_nncf(*given, transformer=True),
    ),
    "nncf-weights": ("openvino-cpu", "model.xml", lambda base, out, _: libraries.compress_weights(base, out)),
    "ort-int8": (
        "onnxruntime-cpu",
        "model.onnx",
        lambda *given: libraries.quantize_by_onnxruntime(*given, reduce_range=True),
    ),
    "ort-dynamic": (
        "onnxruntime-cpu",
        "model.onnx",
        lambda base, out, _: libraries.quantize_dynamic(base, out, reduce_range=True),
    ),
}


@pytest.mark.parametrize("name", MAKERS)
def test_it_is_smaller_in_bits_and_answers_alike(conv_model, samples, tmp_path, capfd, name):
    if name.startswith("nncf"):
        pytest.importorskip("nncf")
    backend, file, make = MAKERS[name]
    entry = make(conv_model, tmp_path / file, samples)
    assert entry.pass_name == name
    assert entry.applied[0].nodes
    assert entry.nodes_after > entry.nodes_before
    # Without VNNI, OpenVINO loses some accuracy to saturation.
    assert 15 < accuracy_db(conv_model, tmp_path / file, backend, samples) < 100
    assert capfd.readouterr().out == "", "answers of a maker go to stdout"


@pytest.mark.parametrize(("reduce_range", "maximum"), [(True, {63, 64}), (False, {127})])
@pytest.mark.parametrize("transformer", [False, True])
def test_weights_of_every_product_leave_a_bit_for_processors_that_saturate(
    conv_model, samples, tmp_path, transformer, reduce_range, maximum
):
    pytest.importorskip("nncf")
    out = tmp_path / "model.xml"
    libraries.quantize_by_nncf(conv_model, out, samples, transformer=transformer, reduce_range=reduce_range)
    constants = [op for op in read_model(out).get_ops() if op.get_type_name() == "Constant"]
    bytes_of = [op.data for op in constants if op.get_output_element_type(0).get_type_name() == "i8"]
    assert len(bytes_of) > 1
    assert {int(np.abs(weights.astype(int)).max()) for weights in bytes_of} <= maximum


def test_nncf_is_silenced_without_the_handlers_of_the_application(conv_model, samples, tmp_path):
    pytest.importorskip("nncf")
    logger, handler = logging.getLogger("nncf"), logging.NullHandler()
    logger.addHandler(handler)
    try:
        libraries.quantize_by_nncf(conv_model, tmp_path / "model.xml", samples, transformer=False)
    finally:
        logger.removeHandler(handler)
    assert handler.level == logging.NOTSET
    assert not logger.isEnabledFor(logging.WARNING)


def test_the_tools_are_silenced_in_their_thread_only(conv_model, caplog):
    with libraries._prepared(conv_model):
        logging.warning("advice")  # noqa: LOG015 - as the tools do
        assert logging.getLogger("someone.else").isEnabledFor(logging.WARNING)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(logging.warning, "of another thread").result()
    logging.warning("afterwards")  # noqa: LOG015
    assert [r.getMessage() for r in caplog.records] == ["of another thread", "afterwards"]


def test_an_open_batch_stays_open(conv_model, samples, tmp_path):
    pytest.importorskip("nncf")
    libraries.quantize_by_nncf(conv_model, tmp_path / "model.xml", samples, transformer=False)
    four = [{"x": np.concatenate([each["x"] for each in samples[:4]])}]
    assert answers(tmp_path / "model.xml", "openvino-cpu", four)[0]["y"].shape == (4, 10)


def test_the_ranges_of_nncf_hold_the_loudest_sample(conv_model, samples, tmp_path):
    """Its default takes the mean of each sample's range, and clips what is louder than most."""
    pytest.importorskip("nncf")
    loud = [{"x": samples[0]["x"] * np.float32(8)}]
    reached = {}
    for full in (True, False):
        out = tmp_path / f"{full}.xml"
        libraries.quantize_by_nncf(conv_model, out, [*samples, *loud], transformer=False, full_ranges=full)
        reached[full] = accuracy_db(conv_model, out, "openvino-cpu", loud)
    assert reached[True] > reached[False] + 6


@pytest.fixture
def branched_lstm(tmp_path):
    """A recurrent layer inside a branch, as voice detectors for two sample rates have it."""
    rng = np.random.default_rng(0)
    weights = {"W": (1, 64, 16), "R": (1, 64, 16)}
    held = [numpy_helper.from_array(rng.normal(0, 0.3, s).astype(np.float32), n) for n, s in weights.items()]
    layer = helper.make_node("LSTM", ["x", "W", "R"], ["", "h"], hidden_size=16)
    out = helper.make_tensor_value_info("h", TensorProto.FLOAT, None)
    same = helper.make_node("Identity", ["zero"], ["h"])
    zero = numpy_helper.from_array(np.zeros((1, 1, 16), np.float32), "zero")
    branches = {
        "then_branch": helper.make_graph([layer], "then", [], [out], held),
        "else_branch": helper.make_graph([same], "else", [], [out], [zero]),
    }
    choose = helper.make_node("If", ["on"], ["y"], **branches)
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 1, 16]),
        helper.make_tensor_value_info("on", TensorProto.BOOL, []),
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 16])
    graph = helper.make_graph([choose], "g", inputs, [y])
    path = tmp_path / "branched.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_recurrent_layer_in_a_branch_gets_eight_bits(branched_lstm, tmp_path):
    made = tmp_path / "dynamic.onnx"
    entry = libraries.quantize_dynamic(branched_lstm, made, reduce_range=False)
    assert len(entry.applied[0].nodes) == 1
    rng = np.random.default_rng(1)
    samples = [{"x": rng.normal(size=(5, 1, 16)).astype(np.float32), "on": np.array(True)} for _ in range(4)]
    assert 20 < accuracy_db(branched_lstm, made, "onnxruntime-cpu", samples) < 100


def test_a_model_without_weights_is_refused_in_a_sentence(samples, tmp_path):
    pytest.importorskip("nncf")
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 3, 16, 16]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ports[:1], ports[1:])
    path = tmp_path / "relu.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    with pytest.raises(ModelError, match="NNCF found nothing to quantize"):
        libraries.compress_weights(path, tmp_path / "model.xml")
    with pytest.raises(ModelError, match="found nothing to quantize"):
        libraries.quantize_dynamic(path, tmp_path / "dynamic.onnx", reduce_range=False)


def test_nothing_of_it_is_loaded_before_it_is_needed():
    assert "edgeopt.quant.libraries" in sys.modules
    import subprocess

    code = "import sys, edgeopt.pipeline.plans.recipes; print('nncf' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
