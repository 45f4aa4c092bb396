import dataclasses
from collections import Counter

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from edgeopt.quant.forms import form_named
from edgeopt.quant.records import Range
from tests.conftest import seeded, write_onnx
from tests.quant.small_models import case, snr_db

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
    layer, form = pictures.layers[2], form_named("fp16")
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
    reason = form_named("bf16").fits(pictures.layers[0], pictures.context("onnxruntime-cpu"))
    assert reason == "onnxruntime-cpu does not support bf16 models"
