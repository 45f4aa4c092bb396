import dataclasses
from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from edgeopt.backends import backend_named
from edgeopt.quant.records import Range
from edgeopt.quant.schemes import scheme_named
from edgeopt.quant.schemes.blocks import in_blocks
from tests.conftest import seeded, write_onnx
from tests.quant.small_models import case, run, simulated, snr_db

OUTLIER = 30.0


def openvino(path, feeds, **options):
    pytest.importorskip("openvino")
    session = backend_named("openvino-cpu").load(path, {"precision": "f32", **options})
    try:
        return [session.run(feed) for feed in feeds]
    finally:
        session.close()


def products(folder, inputs=128, outputs=48, **more):
    """Two products, the second as Gemm with transposed weights and a bias."""
    nodes = [
        ("MatMul", ["x", "w"], ["m"], {}),
        ("Tanh", ["m"], ["t"], {}),
        ("Gemm", ["t", "v", "b"], ["y"], {"transB": 1}),
    ]
    weights = {"w": seeded(inputs, outputs), "v": seeded(16, outputs, seed=1), "b": seeded(16, seed=2)}
    path = write_onnx(folder / "m.onnx", nodes, weights, {"x": ["n", inputs]}, {"y": ["n", 16]})
    return case(path, [{"x": seeded(3, inputs, seed=k) * 5} for k in range(4)])


@pytest.mark.parametrize(("bits", "maximum"), [(8, 0.006), (4, 0.11)])
def test_blocks_hold_what_they_can(bits, maximum):
    matrix = seeded(70, 5)
    matrix[3, 2] = OUTLIER
    found = in_blocks(matrix, 32, bits)
    assert found.scales.shape == (3, 5)
    error = np.abs(found.floats() - matrix)
    assert found.integers.min() >= -(1 << (bits - 1))
    assert found.integers.max() < 1 << (bits - 1)
    assert error[32:].max() < maximum * np.abs(matrix[32:]).max(), "an outlier coarsens its own block only"


def test_a_block_of_zeros_stays_zero():
    assert np.array_equal(in_blocks(np.zeros((32, 4), np.float32), 16, 4).floats(), np.zeros((32, 4)))


@pytest.mark.parametrize("form", ["int8-groups", "w8", "w4"])
@pytest.mark.parametrize("block_size", [0, 32])
def test_openvino_answers_as_it_was_simulated(tmp_path, form, block_size):
    one = products(tmp_path, inputs=128, outputs=64)
    context = one.context("openvino-cpu", block_size=block_size, group_size=32)
    assert len(one.choices(form, context)) == 2
    path = one.written(form, context, tmp_path / "q.onnx")
    got = openvino(path, one.feeds, dynamic_quantization_group_size=32 if form == "int8-groups" else 0)
    if form == "int8-groups" and snr_db(openvino(path, one.feeds, dynamic_quantization_group_size=0), got) > 140:
        pytest.skip("OpenVINO leaves activations in floats on this CPU")
    fake = run(simulated(one, form, context, tmp_path / "f.onnx"), one.feeds, exactly=True)
    assert snr_db(fake, got) > snr_db(one.answers(), got) + 10


def test_groups_of_a_size_that_does_not_divide_the_inputs(tmp_path):
    one = products(tmp_path, inputs=100)
    form, context = scheme_named("int8-groups"), one.context("openvino-cpu")
    assert form.fits(one.layers[0], context) == "its 100 inputs are not a multiple of the group size, 64"
    assert form.fits(one.layers[0], one.context("onnxruntime-cpu")) == "", "its last block is filled up"
    path = one.written("int8-groups", one.context("onnxruntime-cpu"), tmp_path / "q.onnx")
    fake = run(simulated(one, "int8-groups", one.context("onnxruntime-cpu"), tmp_path / "f.onnx"), one.feeds)
    assert snr_db(fake, one.answers(path)) > 60


@pytest.mark.parametrize(("form", "bits", "level"), [("int8-groups", 8, 4), ("w8", 8, 1), ("w4", 4, 4)])
def test_onnxruntime_gets_its_own_operator(tmp_path, form, bits, level):
    one = products(tmp_path)
    proto = onnx.load(one.written(form, one.context("onnxruntime-cpu"), tmp_path / "q.onnx"))
    made = [node for node in proto.graph.node if node.op_type == "MatMulNBits"]
    attributes = [{a.name: a.i for a in node.attribute} for node in made]
    assert [(each["bits"], each["accuracy_level"]) for each in attributes] == [(bits, level)] * 2
    assert not {"MatMul", "Gemm"} & {node.op_type for node in proto.graph.node}


def test_four_bits_take_an_eighth(tmp_path):
    one = products(tmp_path, inputs=512, outputs=512)
    for backend in ("onnxruntime-cpu", "openvino-cpu"):
        path = one.written("w4", one.context(backend), tmp_path / "q.onnx")
        assert path.stat().st_size < 0.16 * one.path.stat().st_size


def test_a_table_is_looked_up_in_eight_bits(odd, tmp_path):
    layer = next(each for each in odd.layers if each.operator == "Gather")
    proto = onnx.load(odd.written("w8", odd.context("openvino-cpu"), tmp_path / "q.onnx"))
    stored = {weight.name: numpy_helper.to_array(weight) for weight in proto.graph.initializer}
    assert stored["table_quantized"].dtype == np.int8
    assert layer.weight not in stored
    looked_up = next(node for node in proto.graph.node if "table_quantized" in node.input)
    assert looked_up.op_type == "Gather", "rows are taken back to floats, not the table"


@pytest.mark.parametrize(("form", "layer"), [("int8-groups", "c1"), ("w4", "c1"), ("w4", "rows"), ("w4", "m")])
def test_what_is_no_matrix_says_so(odd, form, layer):
    found = next(each for each in odd.layers if each.name == layer)
    assert (
        scheme_named(form).fits(found, odd.context("openvino-cpu")) == "it is not a product with a weight matrix"
    )


BACKEND = "onnxruntime-tensorrt"


def kinds_of(proto):
    inferred = onnx.shape_inference.infer_shapes(proto, strict_mode=True)
    return {value.name: value.type.tensor_type.elem_type for value in inferred.graph.value_info}


def test_a_region_has_casts_at_its_borders_only(pictures, tmp_path):
    proto = onnx.load(pictures.written("fp16", pictures.context(BACKEND), tmp_path / "h.onnx"))
    kinds = kinds_of(proto)
    for name in ("r1", "r2", "sum", "pool", "silu", "joined", "t4"):
        assert kinds[name] == TensorProto.FLOAT16, name
    assert kinds["mean"] == TensorProto.FLOAT, "a mean over many numbers is taken in float32"
    assert Counter(node.op_type for node in proto.graph.node)["Cast"] == 4
    kernel = next(weight for weight in proto.graph.initializer if weight.name.startswith("k1"))
    assert numpy_helper.to_array(kernel).dtype == np.float16


def test_bf16_is_valid_onnx_from_where_convolutions_have_it(pictures, tokens, tmp_path):
    for one in (pictures, tokens):
        proto = onnx.load(one.written("bf16", one.context(BACKEND), tmp_path / "h.onnx"))
        onnx.checker.check_model(proto, full_check=True)
        assert TensorProto.BFLOAT16 in kinds_of(proto).values()


def test_outputs_stay_float32(odd, tmp_path):
    path = odd.written("fp16", odd.context(BACKEND), tmp_path / "h.onnx")
    assert onnx.load(path).graph.output == onnx.load(odd.path).graph.output
    assert snr_db(odd.answers(), odd.answers(path)) > 60


def test_layers_that_leave_the_range_are_kept(pictures):
    layer, form = pictures.layers[2], scheme_named("fp16")
    for low, high, said in ((-1.0, 70000.0, "reach 7e+04"), (-1e-9, 1e-9, "rounds to zero"), (-1.0, 60000.0, "")):
        one = dataclasses.replace(pictures, ranges={**pictures.ranges, "r2": Range(low, high)})
        assert said in form.fits(layer, one.context(BACKEND))
        assert bool(said) == bool(form.fits(layer, one.context(BACKEND)))


def test_operators_whose_results_leave_the_range_are_kept(tmp_path):
    nodes = [
        ("Conv", ["x", "k"], ["c"], {}),
        ("Mul", ["c", "much"], ["big"], {}),
        ("Mul", ["big", "less"], ["y"], {}),
    ]
    weights = {"k": seeded(4, 4, 3, 3), "much": np.float32(1e6), "less": np.float32(1e-6)}
    one = case(write_onnx(tmp_path / "m.onnx", nodes, weights, {"x": [1, 4, 6, 6]}, {"y": [1, 4, 4, 4]}),
               [{"x": seeded(1, 4, 6, 6, seed=k)} for k in range(3)])  # fmt: skip
    one = dataclasses.replace(one, ranges={**one.ranges, "big": Range(-3e6, 3e6)})
    path = one.written("fp16", one.context(BACKEND), tmp_path / "h.onnx")
    assert snr_db(one.answers(), one.answers(path)) > 50


def test_bf16_is_refused_where_a_runtime_has_no_kernels(pictures):
    reason = scheme_named("bf16").fits(pictures.layers[0], pictures.context("onnxruntime-cpu"))
    assert reason == "onnxruntime-cpu does not support bf16 models"
