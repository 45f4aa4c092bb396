from collections import Counter

import onnx
import onnxruntime as ort

from edgeopt.quant.forms import form_named
from tests.quant.small_models import snr_db


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
    reason = form_named("int8-dynamic").fits(layer, odd.context("onnxruntime-cpu"))
    assert reason == "there is no integer ConvTranspose"
