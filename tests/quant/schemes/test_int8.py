import dataclasses
from collections import Counter

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from edgeopt.backends import backend_named
from edgeopt.quant.records import QuantSettings
from edgeopt.quant.schemes import SCHEMES, SchemeContext, scheme_named
from edgeopt.quant.schemes.qdq import kept_range
from edgeopt.quant.write import tensors_wanted
from tests.conftest import seeded, write_onnx
from tests.quant.small_models import case, context_for, ranges, run, simulated, snr_db


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


WRONG_IN_OPENVINO = {
    "a convolution without a bias that is read twice": [
        ("Conv", ["x", "k"], ["c"], {"pads": [1, 1, 1, 1]}),
        ("Relu", ["c"], ["r"], {}),
        ("Add", ["c", "r"], ["y"], {}),
    ],
    "a product behind a maximum": [
        ("ReduceMax", ["x"], ["m"], {"axes": [2, 3], "keepdims": 0}),
        ("Gemm", ["m", "w"], ["y"], {}),
    ],
}


@pytest.mark.parametrize("name", WRONG_IN_OPENVINO)
def test_openvino_computes_right_what_it_would_compute_wrong(name, tmp_path):
    weights = {"k": seeded(64, 64, 3, 3), "w": 8 * seeded(64, 6)}
    nodes = WRONG_IN_OPENVINO[name]
    used = {each for _, inputs, _, _ in nodes for each in inputs}
    path = write_onnx(
        tmp_path / "m.onnx", nodes, {k: v for k, v in weights.items() if k in used},
        {"x": ["n", 64, "h", "w"]}, {"y": ["n", 64, "h", "w"] if "w" not in used else ["n", 6]},
    )  # fmt: skip
    one = case(path, [{"x": 30 * seeded(2, 64, 6, 6, seed=k)} for k in range(3)])
    written = one.written("int8", one.context("openvino-cpu"), tmp_path / "q.onnx")
    session = backend_named("openvino-cpu").load(written, {"precision": "f32"})
    try:
        got = [session.run(feed) for feed in one.feeds]
    finally:
        session.close()
    assert snr_db(one.answers(), got) > 30


@pytest.mark.parametrize("backend", ["openvino-auto", "onnxruntime-openvino", "onnxruntime-cpu"])
def test_whatever_runs_openvino_gets_the_bias(backend, tmp_path):
    nodes = WRONG_IN_OPENVINO["a convolution without a bias that is read twice"]
    path = write_onnx(
        tmp_path / "m.onnx", nodes, {"k": seeded(8, 4, 3, 3)}, {"x": ["n", 4, "h", "w"]}, {"y": ["n", 8, "h", "w"]}
    )
    one = case(path, [{"x": seeded(2, 4, 6, 6)}])
    written = constants(one.written("int8", one.context(backend), tmp_path / "q.onnx"))
    assert any(name.endswith("_no_bias") for name in written) == ("openvino" in backend)


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
    reason = scheme_named("int8").fits(found, odd.context(backend))
    assert said in reason
    assert bool(reason) == bool(said)


def test_a_tensor_without_a_range_says_so(pictures):
    known = {name: kept for name, kept in pictures.ranges.items() if name != "r1"}
    layer = next(each for each in pictures.layers if "r1" in each.inputs)
    assert "range of 'r1'" in scheme_named("int8").fits(
        layer, SchemeContext("openvino-cpu", QuantSettings(), known)
    )


def test_no_form_is_there_twice():
    assert len({form.name for form in SCHEMES}) == len(SCHEMES) == 8


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


def test_onnxruntime_multiplies_integers(tokens, tmp_path):
    path = tokens.written("int8-dynamic", tokens.context("onnxruntime-cpu"), tmp_path / "q.onnx")
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    ort.InferenceSession(str(path), options)
    found = Counter(node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node)
    assert found["DynamicQuantizeMatMul"] + found["MatMulIntegerToFloat"] == 6
    assert found["MatMul"] == found["Mul"] == 0, "what takes integers back to floats is fused"


def test_what_several_products_read_is_rounded_once(tokens, tmp_path):
    path = tokens.written("int8-dynamic", tokens.context("onnxruntime-cpu"), tmp_path / "q.onnx")
    reads = Counter(n.input[0] for n in onnx.load(path).graph.node if n.op_type == "DynamicQuantizeLinear")
    assert reads["x"] == 1
    assert set(reads.values()) == {1}


def test_it_needs_no_ranges(pictures, tmp_path):
    context = type(pictures.context("onnxruntime-cpu"))("onnxruntime-cpu", pictures.context("x").settings)
    assert len(pictures.choices("int8-dynamic", context)) == 5
    assert (
        snr_db(pictures.answers(), pictures.answers(pictures.written("int8-dynamic", context, tmp_path / "q")))
        > 30
    )


def test_a_transposed_convolution_has_no_kernel(odd):
    layer = next(each for each in odd.layers if each.operator == "ConvTranspose")
    reason = scheme_named("int8-dynamic").fits(layer, odd.context("onnxruntime-cpu"))
    assert reason == "there is no integer ConvTranspose"


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


ALIKE_DB = 50.0  # where one number now and then is rounded the other way
HALVES_DB = 6.0  # what lies between products is rounded as well, and a sum in half precision rounds on its way
BETWEEN_DB = 3.0  # eight bits are kept through what lies between products, which rounds once more
RUNNABLE = [form.name for form in SCHEMES if form.name != "bf16"]  # for which ONNX Runtime has no convolution


CASES = [
    *((form, "onnxruntime-cpu") for form in RUNNABLE),
    ("int8", "openvino-cpu"),
    ("int8", "onnxruntime-tensorrt"),
]


@pytest.mark.parametrize("net", ["pictures", "tokens", "odd"])
@pytest.mark.parametrize(("form", "backend"), CASES)
def test_both_give_the_same(net, form, backend, request, tmp_path):
    one = request.getfixturevalue(net)
    context = one.context(backend, group_size=32, block_size=32)
    if not one.choices(form, context):
        assert (net, form) in {("odd", "int8-groups"), ("odd", "w4")}, "only what has no matrix is left out"
        return
    wanted = one.answers()
    written = one.answers(one.written(form, context, tmp_path / "written.onnx"))
    fake = run(simulated(one, form, context, tmp_path / "simulated.onnx"), one.feeds, exactly=True)
    got, expected = snr_db(wanted, written), snr_db(wanted, fake)
    assert got < 140, "nothing was rounded"
    if form == "fp16":
        assert abs(got - expected) < HALVES_DB
    elif (net, form) == ("pictures", "int8") and backend == "onnxruntime-cpu":
        assert abs(got - expected) < BETWEEN_DB
    else:
        assert snr_db(fake, written) > max(ALIKE_DB, got + 10)


@pytest.mark.parametrize(("form", "minimum"), [("int8", 20), ("w8", 35), ("fp16", 60), ("a16w8", 35), ("w4", 12)])
def test_each_is_as_exact_as_its_bits_allow(pictures, tokens, form, minimum, tmp_path):
    for one in (pictures, tokens):
        context = context_for(one, form, "onnxruntime-qnn" if form == "fp16" else "onnxruntime-cpu")
        written = one.written(form, context, tmp_path / "written.onnx")
        assert snr_db(one.answers(), one.answers(written)) > minimum
