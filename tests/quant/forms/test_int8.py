import dataclasses
from collections import Counter

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from edgeopt.backends import backend_named
from edgeopt.quant.forms import FORMS, FormContext, form_named
from edgeopt.quant.records import QuantSettings
from edgeopt.quant.write import tensors_wanted
from tests.conftest import seeded, write_onnx
from tests.quant.small_models import case, context_for, ranges, snr_db


def operators(path):
    return Counter(node.op_type for node in onnx.load(path).graph.node)


def as_run(path, folder):
    """The operators that ONNX Runtime runs in the end, with signed activations fused as they are on Arm."""
    options = ort.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    options.log_severity_level = 3
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    ort.InferenceSession(str(path), options)
    return operators(folder / "optimized.onnx")


def constants(path):
    return {weight.name: numpy_helper.to_array(weight) for weight in onnx.load(path).graph.initializer}


def test_onnxruntime_computes_all_of_it_in_integers(pictures, tmp_path):
    path = pictures.written("int8", pictures.context("onnxruntime-cpu"), tmp_path / "q.onnx")
    found = as_run(path, tmp_path)
    assert found["QLinearConv"] == 4
    assert found["QGemm"] == 1
    assert found["QLinearAdd"] == found["QLinearSigmoid"] == found["QLinearMul"] == found["QLinearConcat"] == 1
    # Only Tanh, of which there is no kernel for integers, and the end of the model are float.
    assert not found.keys() & {"Conv", "Gemm", "Relu", "Clip", "FusedConv", "Add", "Concat"}
    assert found["QuantizeLinear"] <= 2
    assert found["DequantizeLinear"] <= 2


def test_onnxruntime_multiplies_integers_and_gives_floats(tokens, tmp_path):
    path = tokens.written("int8", tokens.context("onnxruntime-cpu"), tmp_path / "q.onnx")
    found = as_run(path, tmp_path)
    assert found["MatMulIntegerToFloat"] + found["QLinearMatMul"] == 6
    assert found["MatMul"] == 0


def test_openvino_computes_convolutions_and_products_in_integers(pictures, tokens, tmp_path):
    openvino = pytest.importorskip("openvino")
    for one, kinds, count in ((pictures, {"Convolution", "GroupConvolution"}, 4), (tokens, {"FullyConnected"}, 4)):
        path = one.written("int8", one.context("openvino-cpu"), tmp_path / "q.onnx")
        model = openvino.Core().read_model(path)
        model.reshape({name: list(array.shape) for name, array in one.feeds[0].items()})
        compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        infos = [node.get_rt_info() for node in compiled.get_runtime_model().get_ops()]
        precisions = [i["runtimePrecision"].astype(str) for i in infos if i["layerType"].astype(str) in kinds]
        assert len(precisions) == count
        assert all(precision in {"i8", "u8"} for precision in precisions)


def test_openvino_answers_as_it_was_simulated(pictures, tmp_path):
    context = pictures.context("openvino-cpu")
    path = pictures.written("int8", context, tmp_path / "q.onnx")
    session = backend_named("openvino-cpu").load(path, {"precision": "f32"})
    try:
        got = [session.run(feed) for feed in pictures.feeds]
    finally:
        session.close()
    in_floats = pictures.answers(path)
    assert snr_db(in_floats, got) > snr_db(pictures.answers(), in_floats) + 3


def test_each_tensor_is_rounded_once_and_floats_are_read_where_nothing_is_gained(tokens, tmp_path):
    proto = onnx.load(tokens.written("int8", tokens.context("openvino-cpu"), tmp_path / "q.onnx"))
    reads = Counter(node.input[0] for node in proto.graph.node if node.op_type == "QuantizeLinear")
    assert set(reads.values()) == {1}
    residual = next(node for node in proto.graph.node if node.output[0] == "sum")
    assert list(residual.input) == ["mixed", "x"]
    queries = [node for node in proto.graph.node if "x_dequantized" in node.input]
    assert len(queries) == 3


def test_weights_become_int8_by_channel_and_all_of_them(pictures, tmp_path):
    path = pictures.written("int8", pictures.context("onnxruntime-cpu"), tmp_path / "q.onnx")
    found = constants(path)
    for name, shape, channels in (("k1", (16, 3, 3, 3), 16), ("w5", (10, 24), 10)):
        assert found[f"{name}_quantized"].dtype == np.int8
        assert found[f"{name}_quantized"].shape == shape
        assert found[f"{name}_scale"].shape == (channels,)
    assert not {"k1", "k2", "k3", "k4", "w5"} & set(found), "the floats are gone"
    assert found["b1_quantized"].dtype == np.int32


@pytest.mark.parametrize(("settings", "largest"), [({"reduce_range": False}, 127), ({"reduce_range": True}, 64)])
def test_reduced_range_leaves_the_eighth_bit_out(pictures, tmp_path, settings, largest):
    path = pictures.written("int8", pictures.context("onnxruntime-cpu", **settings), tmp_path / "q.onnx")
    assert np.abs(constants(path)["k1_quantized"].astype(int)).max() == largest


def test_one_scale_for_all_channels_on_request(pictures, tmp_path):
    path = pictures.written("int8", pictures.context("onnxruntime-cpu", per_channel=False), tmp_path / "q.onnx")
    assert constants(path)["k1_scale"].shape == ()
    assert as_run(path, tmp_path)["QLinearConv"] == 4


@pytest.mark.parametrize(("backend", "kind"), [("onnxruntime-cpu", "uint8"), ("onnxruntime-tensorrt", "int8")])
def test_activations_have_the_type_that_the_device_takes(pictures, tmp_path, backend, kind):
    found = constants(pictures.written("int8", pictures.context(backend), tmp_path / "q.onnx"))
    zero = found["x_zero_point"]
    assert zero.dtype.name == kind
    assert (int(zero) == 0) == (kind == "int8"), "TensorRT knows no zero point, and x has both signs"


def test_signed_activations_on_request(pictures, tmp_path):
    context = pictures.context("onnxruntime-cpu", activation_type="int8")
    path = pictures.written("int8", context, tmp_path / "q.onnx")
    assert constants(path)["x_zero_point"].dtype == np.int8
    assert as_run(path, tmp_path)["QLinearConv"] == 4
    symmetric = pictures.context("onnxruntime-cpu", activation_type="int8", symmetric_activations=True)
    assert snr_db(pictures.answers(), pictures.answers(pictures.written("int8", symmetric, path))) > 20


def test_an_output_keeps_its_name_type_and_open_dimensions(tmp_path):
    nodes = [("Conv", ["x", "k"], ["y"], {"pads": [1, 1, 1, 1]})]
    path = write_onnx(
        tmp_path / "m.onnx", nodes, {"k": seeded(8, 4, 3, 3)}, {"x": ["n", 4, 6, 6]}, {"y": ["n", 8, 6, 6]}
    )
    one = case(path, [{"x": seeded(2, 4, 6, 6, seed=k)} for k in range(3)])
    for backend in ("onnxruntime-cpu", "openvino-cpu"):
        written = one.written("int8", one.context(backend), tmp_path / "q.onnx")
        before, after = onnx.load(path).graph, onnx.load(written).graph
        assert before.output == after.output
        assert before.input == after.input
        assert snr_db(one.answers(), one.answers(written)) > 30


def test_channels_of_tiny_weights_keep_their_bias(tmp_path):
    """Their scale alone would be so small that the bias, in its steps, does not fit into 32 bits."""
    kernel, bias = seeded(8, 4, 3, 3), seeded(8, seed=1)
    kernel[2] *= 1e-20
    kernel[3] = 0
    path = write_onnx(
        tmp_path / "m.onnx",
        [("Conv", ["x", "k", "b"], ["c"], {}), ("Relu", ["c"], ["y"], {})],
        {"k": kernel, "b": np.abs(bias) + 1},
        {"x": [1, 4, 6, 6]},
        {"y": [1, 8, 4, 4]},
    )
    one = case(path, [{"x": seeded(1, 4, 6, 6, seed=k)} for k in range(3)])
    assert snr_db(one.answers(), one.answers(one.written("int8", one.context("onnxruntime-cpu"), path))) > 30


def test_numbers_as_small_as_a_random_model_has_them(tmp_path):
    path = write_onnx(
        tmp_path / "m.onnx", [("MatMul", ["x", "w"], ["y"], {})], {"w": seeded(16, 16) * 1e-12},
        {"x": [1, 16]}, {"y": [1, 16]},
    )  # fmt: skip
    one = case(path, [{"x": seeded(1, 16, seed=k) * np.float32(1e-10)} for k in range(3)])
    written = one.written("int8", one.context("openvino-cpu"), tmp_path / "q.onnx")
    scale = 1e22
    alike = [
        [{"y": answer["y"] * scale} for answer in answers] for answers in (one.answers(), one.answers(written))
    ]
    assert snr_db(*alike) > 25


def test_a_relu_that_rounding_does_as_well_is_gone(pictures, tmp_path):
    found = operators(pictures.written("int8", pictures.context("onnxruntime-cpu"), tmp_path / "q.onnx"))
    assert not found.keys() & {"Relu", "Clip"}


def test_a_relu_stays_where_steps_reach_below_zero(pictures, tmp_path):
    context = pictures.context("onnxruntime-cpu", activation_type="int8", symmetric_activations=True)
    assert operators(pictures.written("int8", context, tmp_path / "q.onnx"))["Relu"] == 1


@pytest.mark.parametrize(
    ("layer", "backend", "said"),
    [
        ("up", "onnxruntime-cpu", "no ConvTranspose in eight bits"),
        ("up", "openvino-cpu", ""),
        ("c1", "onnxruntime-coreml", "no products in eight bits"),
        ("rows", "openvino-cpu", "only looks weights up"),
    ],
)
def test_what_does_not_fit_says_why(odd, layer, backend, said):
    found = next(each for each in odd.layers if each.name == layer)
    reason = form_named("int8").fits(found, odd.context(backend))
    assert said in reason
    assert bool(reason) == bool(said)


def test_a_tensor_without_a_range_says_so(pictures):
    known = {name: kept for name, kept in pictures.ranges.items() if name != "r1"}
    layer = next(each for each in pictures.layers if "r1" in each.inputs)
    assert "range of 'r1'" in form_named("int8").fits(layer, FormContext("openvino-cpu", QuantSettings(), known))


def test_no_form_is_there_twice():
    assert len({form.name for form in FORMS}) == len(FORMS) == 8


@pytest.mark.parametrize("form", ["int8", "a16w8"])
def test_a_device_without_floats_gets_all_of_it_in_pairs(pictures, tokens, form, tmp_path):
    for one in (pictures, tokens):
        wanted = tensors_wanted(one.model, one.layers, QuantSettings(), "onnxruntime-qnn")
        whole = dataclasses.replace(one, ranges=ranges(one.path, wanted, one.feeds))
        path = whole.written(form, context_for(whole, form, "onnxruntime-qnn"), tmp_path / "q.onnx")
        proto = onnx.load(path)
        dequantized = {n.output[0] for n in proto.graph.node if n.op_type == "DequantizeLinear"}
        for node in proto.graph.node:
            if node.op_type not in {"QuantizeLinear", "DequantizeLinear"}:
                places = node.input[:1] if node.op_type in {"Reshape", "Clip"} else node.input
                assert set(places) <= dequantized, (node.op_type, node.input)
        assert {output.name for output in proto.graph.output} <= dequantized
        assert snr_db(one.answers(), one.answers(path)) > (20 if form == "int8" else 35)
